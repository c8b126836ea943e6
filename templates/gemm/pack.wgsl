//# if f16
enable f16;

//# endif
// Packs {{ packs | map("upper") | join(" and ") }} for the pass that multiplies: {{ "copies" if operands | length == 2 else "a copy" }} with rows across K, a multiple of {{ pack_step }} elements long, whatever
// rows were before.{{ " The first workgroups pack A, the others B: a pass for each would be mostly latency." if operands | length == 2 }}
//# if turns
// Where rows lay along K, an invocation turns a block of 4×4 elements around in registers, and a workgroup its
// blocks in workgroup memory, so that whole lines of the cache are read as well as written.
//# endif
//# if depth_step > 1
// Copies have a multiple of {{ depth_step }} rows, of zeros past K, so that tiles of them are whole along K.
//# endif
// Past the last {{ {"a": "row of A", "b": "column of B"}[packs[0]] }}{{ " or column of B" if operands | length == 2 }} lies what is at hand, its neighbours again or a gap between rows: those products are never stored.
// (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008.)
//
//   tile, tile_k   what a workgroup packs, in elements across K and along it, e.g. 64 × 32
{% include "lib/sizes.wgsl" %}

alias Stored = {{ dtype }};
//# for op in operands
@group(0) @binding({{ op.from_binding }}) var<storage, read> {{ op.x }}: array<{{ "vec4<Stored>" if op.vector == 4 else "Stored" }}>;
@group(0) @binding({{ op.to_binding }}) var<storage, read_write> packed_{{ op.x }}: array<vec4<Stored>>;
//# endfor

{% include "lib/grid.wgsl" %}

const TILE = {{ tile }}u;
const TILE_K = {{ tile_k }}u;
const BLOCKS = TILE / 4u;
const BLOCKS_K = TILE_K / 4u;
const INVOCATIONS = BLOCKS * BLOCKS_K;
//# if turns

//# set lines = {"a": "row of A", "b": "column of B"}
// The tile that a workgroup turns around.
var<workgroup> turned: array<array<vec4<Stored>, BLOCKS + 1u>, TILE_K>;  // [k][({% for op in operands if op.along == "k" %}{{ lines[op.x] }}{{ " or " if not loop.last }}{% endfor %}) / 4]
//# endif
{#-
An operand is described by

  x         its name, "a" or "b"
  along     the axis that is contiguous in memory: "k" or "outer"
  across    name of its size across K, "m" or "n"
  ld        elements a row, as a WGSL expression
  start     first element of its matrix, as a WGSL expression that may name `entry`
  batched   bool: there is one for every entry of the batch
  vector    elements that one load moves: 1 or 4
  from_binding, to_binding   of the operand and of its copy
-#}
{% macro load(op) %}
//# if op.vector == 4
// Four neighbours of the row of {{ op.x | upper }} that starts at element `row`, from `i` on.
fn load_{{ op.x }}(row: u32, i: u32) -> vec4<Stored> {
    return {{ op.x }}[(row + min(i, {{ op.ld }} - 4u)) / 4u];
}
//# else
// Four neighbours of the row of {{ op.x | upper }} that starts at element `row`, from `i` on; past its end the last one again.
fn load_{{ op.x }}(row: u32, i: u32) -> vec4<Stored> {
    let last = sizes.{{ "k" if op.along == "k" else op.across }} - 1u;
    return vec4<Stored>({{ op.x }}[row + min(i, last)], {{ op.x }}[row + min(i + 1u, last)], {{ op.x }}[row + min(i + 2u, last)], {{ op.x }}[row + min(i + 3u, last)]);
}
//# endif
{% endmacro %}

{% macro pack(op) %}
//# set outer = op.across | upper
// Packs one tile of {{ op.x | upper }}{{ ", of those of the whole batch" if op.batched }}.
//
//     {{ "K →      " if op.along == "k" else outer ~ " →      " }}                  {{ outer }} →
//     {{ outer if op.along == "k" else "K" }} ┌─────────┐           K ┌─────────┬──┐
//     ↓ │ 0 1 2 3 │           ↓ │ {{ "0 4 8   │8 │" if op.along == "k" else "0 1 2 3 │3 │" }}
//       │ 4 5 6 7 │     →       │ {{ "1 5 9   │9 │" if op.along == "k" else "4 5 6 7 │7 │" }}
fn pack_{{ op.x }}(tile: u32, invocation: u32) {
    let size = sizes.{{ op.across }};
    let tiles = (size + TILE - 1u) / TILE;
    let tiles_k = (sizes.k + TILE_K - 1u) / TILE_K;
//# if op.batched
    let entry = tile / (tiles * tiles_k);  // of the batch
//# endif
    let k0 = tile / tiles % tiles_k * TILE_K;
    let i0 = tile % tiles * TILE;
//# if op.batched
    let depth = {{ "sizes.k" if depth_step == 1 else "tiles_k * TILE_K" }};
//# endif
    let pitch = (size + {{ pack_step - 1 }}u) / {{ pack_step }}u * {{ pack_step }}u;
    let start = {{ op.start }};

//# if op.along == "k"
    // A block as it lies: neighbours read neighbours along K.
    let block_k = invocation % BLOCKS_K;
    let block = invocation / BLOCKS_K;
//# for r in range(4)
    let line_{{ r }} = load_{{ op.x }}(start + min(i0 + block * 4u + {{ r }}u, size - 1u) * {{ op.ld }}, k0 + block_k * 4u);
//# endfor
//# for c in ["x", "y", "z", "w"]
    turned[block_k * 4u + {{ loop.index0 }}u][block] = vec4<Stored>(line_0.{{ c }}, line_1.{{ c }}, line_2.{{ c }}, line_3.{{ c }});
//# endfor
    workgroupBarrier();

//# endif
    // Neighbours write neighbours across K, after all have been read: drivers wait with a load that follows a store.
    let row = invocation / BLOCKS;
    let quad = invocation % BLOCKS;
    let i = i0 + quad * 4u;
//# for r in range(4)
    let k_{{ r }} = k0 + row + {{ r }}u * BLOCKS_K;
//# if op.along == "k"
    let four_{{ r }} = turned[row + {{ r }}u * BLOCKS_K][quad];
//# else
    let four_{{ r }} = load_{{ op.x }}(start + min(k_{{ r }}, sizes.k - 1u) * {{ op.ld }}, i);
//# endif
//# endfor
    if (i < pitch) {
//# for r in range(4)
//# set at = "(%s * pitch + i) / 4u" % ("(entry * depth + k_%d)" % r if op.batched else "k_%d" % r)
//# if depth_step > 1
        packed_{{ op.x }}[{{ at }}] = select(vec4<Stored>(), four_{{ r }}, k_{{ r }} < sizes.k);
//# else
        if (k_{{ r }} < sizes.k) { packed_{{ op.x }}[{{ at }}] = four_{{ r }}; }
//# endif
//# endfor
    }
}
{% endmacro %}

//# for op in operands
{{ load(op) }}

{{ pack(op) }}

//# endfor
@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    let id = linear_workgroup(workgroup, grid);
    let tiles_k = (sizes.k + TILE_K - 1u) / TILE_K;
//# for op in operands
    let tiles_{{ op.x }} = (sizes.{{ op.across }} + TILE - 1u) / TILE * tiles_k{{ " * sizes.batch" if op.batched }};
//# endfor

    // A whole workgroup takes one branch, or none where the grid is larger than the tiles.
//# if operands | length == 2
    if (id < tiles_a) {
        pack_a(id, invocation);
    } else if (id - tiles_a < tiles_b) {
        pack_b(id - tiles_a, invocation);
    }
//# else
    if (id < tiles_{{ packs[0] }}) {
        pack_{{ packs[0] }}(id, invocation);
    }
//# endif
}
