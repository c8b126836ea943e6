{#-
The walk along K, tile by tile, from `begin` to `end` (for `ahead`, whole tiles) `step` at a time, all WGSL expressions. It takes three macros:

  fetch(k0)              memory -> registers: the tile that starts at k0
  commit(buffer)         registers -> workgroup memory, its place `buffer`
  compute(buffer)        the sums of the tile in place `buffer`; for `ahead` it takes a text to place among
                         its first steps, too

and how they overlap:

  single    fetch, commit, wait, compute, wait
  prefetch  the next tile is fetched before the sums of this one, and waits in registers
  double    and is committed to a second place, so that there is one wait a tile
  ahead     as double, but two tiles ahead: a tile is committed among the first sums of the one before it, while
            other invocations compute, and has been in registers since the tile before that
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
//# elif buffering == "prefetch"
{{ fetch(begin) }}
    for (var k0 = {{ begin }}; k0 < {{ end }}; k0 += {{ step }}) {
{{ commit("0") }}
        workgroupBarrier();
        if (k0 + {{ step }} < {{ end }}) {
{{ fetch("(k0 + %s)" % step) }}
        }
{{ compute("0") }}
        workgroupBarrier();
    }
//# elif buffering == "ahead"
    // Past the last tile it is the last one again that is fetched, and committed where nobody reads.
    let last = max({{ end }}, {{ begin }} + {{ step }}) - {{ step }};
{{ fetch(begin) }}
{{ commit("0") }}
{{ fetch("min(%s + %s, last)" % (begin, step)) }}
    workgroupBarrier();
    var now = 0u;
    for (var k0 = {{ begin }}; k0 < {{ end }}; k0 += {{ step }}) {
        let after = min(k0 + 2u * {{ step }}, last);
{{ compute("now", commit("(1u - now)") ~ fetch("after")) }}
        workgroupBarrier();
        now = 1u - now;
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
