    // Software pipelining, twice over. While a tile is computed, the next one, fetched a tile ago, is committed
    // and the one after that fetched. While a step of k is computed, the values of the next one are read; those
    // of the next tile's first step before this tile's last one, which all have read by then: the only wait of
    // a tile stands there. Past the end it is the last tile again that is fetched, and its values are not used.
    // (CUTLASS's "efficient GEMM" describes the scheme for CUDA.)
    let k_last = k_begin + (max(k_end, k_begin + 1u) - k_begin - 1u) / TILE_K * TILE_K;
{{ fetch_tiles("k_begin") }}
{{ commit_tiles("0") }}
{{ fetch_tiles("min(k_begin + TILE_K, k_last)") }}
    workgroupBarrier();
    var now = 0u;
{{ read_step("var ", "first_a", "first_b", "0", "", 0, tile_k) }}
    for (var k0 = k_begin; k0 < k_end; k0 += TILE_K) {
        let k_after = min(k0 + 2u * TILE_K, k_last);
//# for i in range(thread_m // 4)
        let a0_{{ i }} = first_a_{{ i }};
//# endfor
//# for j in range(quads_n)
        let b0_{{ j }} = first_b_{{ j }};
//# endfor
//# for u in range(tile_k)
//# if u == commit_k
{{ commit_tiles("(1u - now)") }}
{{ fetch_tiles("k_after") }}
//# endif
//# if u + 1 < tile_k
{{ read_step("let ", "a%d" % (u + 1), "b%d" % (u + 1), "now", "", u + 1, tile_k) }}
//# else
        workgroupBarrier();
{{ read_step("", "first_a", "first_b", "1u - now", "", 0, tile_k) }}
//# endif
{{ outer_product("a%d" % u, "b%d" % u) }}
//# endfor
        now = 1u - now;
    }
