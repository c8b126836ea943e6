{#-
Which queries of which head a workgroup has, and which columns of V: `tiles_v` tiles of them, `width_v` wide.
-#}
    // Which queries of which head, and which columns. The whole workgroup leaves together past the end.
    let tiles_q = (sizes.seq + TILE_Q - 1u) / TILE_Q;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles_q * sizes.heads * sizes.batch{{ " * %du" % tiles_v if tiles_v > 1 }}) { return; }
//# if causal
    // Later queries see more keys. Those of all heads come first, so that no core is left with a long one at the
    // end. (Longest processing time first: Graham, "Bounds on multiprocessing timing anomalies", 1969.)
    let heads = sizes.heads * sizes.batch{{ " * %du" % tiles_v if tiles_v > 1 }};
    let q0 = (tiles_q - 1u - id / heads) * TILE_Q;
    let place_in_heads = id % heads;
//# else
    let q0 = id % tiles_q * TILE_Q;
    let place_in_heads = id / tiles_q;
//# endif
    let head = place_in_heads % sizes.heads;
    let batch = place_in_heads / sizes.heads{{ " % sizes.batch" if tiles_v > 1 }};
    let v0 = {{ "place_in_heads / (sizes.heads * sizes.batch) * " ~ width_v if tiles_v > 1 else "0u" }};
    let place = place_of(batch, head);
