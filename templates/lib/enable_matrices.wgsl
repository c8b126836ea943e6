//# if f16
enable f16;
//# endif
enable subgroups;
enable chromium_experimental_subgroup_matrix;
// Tint cannot prove what the invocations of a subgroup do together; here all of them always do the same.
diagnostic(off, chromium.subgroup_matrix_uniformity);
