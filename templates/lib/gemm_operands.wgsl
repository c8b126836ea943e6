// The operands, row-major: A is M×K, B is K×N, C is M×N. `Stored` is their element type, `Sum` the
// type that sums are kept in{{ ", `Staged` the type held in workgroup memory" if staged is defined else "" }}.
alias Stored = {{ dtype }};
alias Sum = {{ accumulate }};
//# if staged is defined
alias Staged = {{ accumulate if staged == "accumulator" else dtype }};
//# endif
//# set access = "vec4<Stored>" if vector == 4 else "Stored"
@group(0) @binding(1) var<storage, read> a: array<{{ access }}>;
@group(0) @binding(2) var<storage, read> b: array<{{ access }}>;
//# if splits > 1
// K is split: each split writes an M×N matrix of partial sums, and a second pass adds them up.
alias Result = Sum;
@group(0) @binding(4) var<storage, read_write> c: array<{{ "vec4<Sum>" if vector == 4 else "Sum" }}>;
//# else
alias Result = Stored;
@group(0) @binding(3) var<storage, read_write> c: array<{{ access }}>;
//# endif
