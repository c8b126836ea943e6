{#-
The walk along K, tile by tile, from `begin` to `end` `step` at a time, all WGSL expressions. It takes three macros:

  fetch(k0)        memory -> registers: the tile that starts at k0
  commit(buffer)   registers -> workgroup memory, its place `buffer`
  compute(buffer)  the sums of the tile in place `buffer`

and how they overlap:

  single    fetch, commit, wait, compute, wait
  prefetch  the next tile is fetched before the sums of this one, and waits in registers
  early     the same, and asked for before all have committed this one
  double    and is committed to a second place, so that there is one wait a tile
-#}
{% macro tile_walk(buffering, fetch, commit, compute, begin, end, step) %}
//# if buffering == "single"
    for (var k0 = {{ begin }}; k0 < {{ end }}; k0 += {{ step }}) {
{{ fetch("k0") }}
{{ commit("0") }}
        workgroupBarrier();
{{ compute("0") }}
        workgroupBarrier();
    }
//# elif buffering in ["prefetch", "early"]
{{ fetch(begin) }}
    for (var k0 = {{ begin }}; k0 < {{ end }}; k0 += {{ step }}) {
{{ commit("0") }}
//# if buffering == "prefetch"
        workgroupBarrier();
//# endif
        if (k0 + {{ step }} < {{ end }}) {
{{ fetch("(k0 + %s)" % step) }}
        }
//# if buffering == "early"
        workgroupBarrier();
//# endif
{{ compute("0") }}
        workgroupBarrier();
    }
//# else
{{ fetch(begin) }}
{{ commit("0") }}
    workgroupBarrier();
    var now = 0u;
    for (var k0 = {{ begin }}; k0 < {{ end }}; k0 += {{ step }}) {
        let more = k0 + {{ step }} < {{ end }};
        if (more) {
{{ fetch("(k0 + %s)" % step) }}
        }
{{ compute("now") }}
        if (more) {
{{ commit("(1u - now)") }}
        }
        workgroupBarrier();
        now = 1u - now;
    }
//# endif
{% endmacro %}
