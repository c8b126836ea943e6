    // Which tile of C. The whole workgroup leaves together where the grid is larger than the tiles.
    let tiles_m = (sizes.m + TILE_M - 1u) / TILE_M;
    let tiles_n = (sizes.n + TILE_N - 1u) / TILE_N;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles_m * tiles_n{{ " * SPLITS" if splits > 1 else "" }}{{ " * sizes.batch" if batched else "" }}) { return; }
//# if shares_first
    // Neighbours in time differ in their share of K, whose count is known here: one division less.
    let split = id % SPLITS;
    let tile = id / SPLITS{{ " % (tiles_m * tiles_n)" if batched else "" }};
//# else
    let tile = id{{ " % (tiles_m * tiles_n)" if batched or splits > 1 else "" }};
//# if splits > 1
    let split = id / (tiles_m * tiles_n{{ " * sizes.batch" if batched else "" }});
//# endif
//# endif
//# if batched
    let entry = id / ({{ "SPLITS * " if shares_first else "" }}tiles_m * tiles_n){{ " % sizes.batch" if splits > 1 and not shares_first else "" }};  // of the batch
//# endif
    let a_start = {{ a_start }};
    let b_start = {{ b_start }};
//# if splits > 1

    // Which share of K, in whole tiles. A share may be empty; its sums are zero then.
    let share = ((sizes.k + TILE_K - 1u) / TILE_K + SPLITS - 1u) / SPLITS * TILE_K;
    let k_begin = min(split * share, sizes.k);
    let k_end = min(k_begin + share, sizes.k);
    let c_begin = c_start(split, {{ "entry" if batched else "0u" }});
//# else
    let k_begin = 0u;
    let k_end = sizes.k;
    let c_begin = c_start(0u, {{ "entry" if batched else "0u" }});
//# endif
{% include "lib/tile_order.wgsl" %}
