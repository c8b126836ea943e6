//# if group_m > 1
    // GROUP_M tile rows are walked column by column, so that they share B's tiles in the cache.
    let group = tile / (GROUP_M * tiles_n);
    let group_rows = min(tiles_m - group * GROUP_M, GROUP_M);
    let in_group = tile % (GROUP_M * tiles_n);
    let tile_row = (group * GROUP_M + in_group % group_rows) * TILE_M;
    let tile_col = in_group / group_rows * TILE_N;
//# else
    let tile_row = tile / tiles_n * TILE_M;
    let tile_col = tile % tiles_n * TILE_N;
//# endif
