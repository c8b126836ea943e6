{#-
Which rows of which KV head a workgroup of a decoding kernel takes, and which keys: part of its main function, after
a comment. `walk` says what neighbours in time differ in first: "splits" of the keys, or "heads".
-#}
//# set counts = {"split": "splits", "kv_head": "sizes.kv_heads"}
//# set first, second = ("kv_head", "split") if walk == "heads" else ("split", "kv_head")
    let all_rows = sizes.seq * sizes.group;
    let blocks = (all_rows + ROWS - 1u) / ROWS;
    let splits = (sizes.kv_seq + SPLIT - 1u) / SPLIT;
    let id = linear_workgroup(workgroup, grid);
    if (id >= blocks * splits * sizes.kv_heads * sizes.batch) { return; }
    let row0 = id % blocks * ROWS;
    let {{ first }} = id / blocks % {{ counts[first] }};
    let {{ second }} = id / (blocks * {{ counts[first] }}) % {{ counts[second] }};
    let batch = id / (blocks * {{ counts[first] }} * {{ counts[second] }});
    let last_row = min(row0 + ROWS, all_rows) - 1u;
    let keys = keys_of(batch);
    let kv_begin = max(split * SPLIT, seen_from(keys, row0 / sizes.group) / TILE_KV * TILE_KV);
    let kv_end = min(split * SPLIT + SPLIT, seen_to(keys, last_row / sizes.group));
    let last_read = max(kv_end, 1u) - 1u;  // in place of what lies past it, which is masked
    let k_begin = k_start(batch, kv_head);
    let v_begin = v_start(batch, kv_head);
