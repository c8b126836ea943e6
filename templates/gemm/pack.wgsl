//# if f16
enable f16;

//# endif
// Packs {{ x | upper }} for the pass that multiplies: a copy with rows across K, a multiple of {{ step }} elements long, whatever
// rows were before.{{ " An invocation turns a block of 4×4 elements around in registers, and a workgroup its" if along == "k" }}
//# if along == "k"
// blocks in workgroup memory, so that whole lines of the cache are read as well as written.
//# endif
// Past the last {{ "row" if x == "a" else "column" }} lies what is at hand, its neighbours again or a gap between rows: those products are never stored.
// (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008.)
//
//     {{ "K →      " if along == "k" else across | upper ~ " →      " }}                  {{ across | upper }} →
//     {{ across | upper if along == "k" else "K" }} ┌─────────┐           K ┌─────────┬──┐
//     ↓ │ 0 1 2 3 │           ↓ │ {{ "0 4 8   │8 │" if along == "k" else "0 1 2 3 │3 │" }}
//       │ 4 5 6 7 │     →       │ {{ "1 5 9   │9 │" if along == "k" else "4 5 6 7 │7 │" }}
//
//   tile, tile_k   what a workgroup packs, in elements across K and along it, e.g. 64 × 32
{% include "lib/sizes.wgsl" %}

alias Stored = {{ dtype }};
@group(0) @binding({{ from_binding }}) var<storage, read> {{ x }}: array<{{ "vec4<Stored>" if vector == 4 else "Stored" }}>;
@group(0) @binding({{ to_binding }}) var<storage, read_write> packed_{{ x }}: array<vec4<Stored>>;

{% include "lib/grid.wgsl" %}

const TILE = {{ tile }}u;
const TILE_K = {{ tile_k }}u;
const BLOCKS = TILE / 4u;
const BLOCKS_K = TILE_K / 4u;
const INVOCATIONS = BLOCKS * BLOCKS_K;
//# if along == "k"

var<workgroup> turned: array<array<vec4<Stored>, BLOCKS + 1u>, TILE_K>;  // [k][{{ "row" if x == "a" else "column" }} / 4]
//# endif

//# if vector == 4
// Four neighbours of the row that starts at element `row`, from `i` on.
fn load(row: u32, i: u32) -> vec4<Stored> {
    return {{ x }}[(row + min(i, {{ ld }} - 4u)) / 4u];
//# else
// Four neighbours of the row that starts at element `row`, from `i` on; past its end the last one again.
fn load(row: u32, i: u32) -> vec4<Stored> {
    let last = sizes.{{ "k" if along == "k" else across }} - 1u;
    return vec4<Stored>({{ x }}[row + min(i, last)], {{ x }}[row + min(i + 1u, last)], {{ x }}[row + min(i + 2u, last)], {{ x }}[row + min(i + 3u, last)]);
//# endif
}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    // Which tile. The whole workgroup leaves together where the grid is larger than the tiles.
    let size = sizes.{{ across }};
    let tiles = (size + TILE - 1u) / TILE;
    let tiles_k = (sizes.k + TILE_K - 1u) / TILE_K;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles * tiles_k{{ " * sizes.batch" if batched }}) { return; }
//# if batched
    let entry = id / (tiles * tiles_k);  // of the batch
//# endif
    let k0 = id / tiles % tiles_k * TILE_K;
    let i0 = id % tiles * TILE;
    let pitch = (size + {{ step - 1 }}u) / {{ step }}u * {{ step }}u;
    let start = {{ start }};

//# if along == "k"
    // A block as it lies: neighbours read neighbours along K.
    let block_k = invocation % BLOCKS_K;
    let block = invocation / BLOCKS_K;
//# for r in range(4)
    let line_{{ r }} = load(start + min(i0 + block * 4u + {{ r }}u, size - 1u) * {{ ld }}, k0 + block_k * 4u);
//# endfor
//# for c in ["x", "y", "z", "w"]
    turned[block_k * 4u + {{ loop.index0 }}u][block] = vec4<Stored>(line_0.{{ c }}, line_1.{{ c }}, line_2.{{ c }}, line_3.{{ c }});
//# endfor
    workgroupBarrier();

//# endif
    // Neighbours write neighbours across K.
    let quad = invocation % BLOCKS;
    for (var row = invocation / BLOCKS; row < TILE_K; row += BLOCKS_K) {
        let k = k0 + row;
        let i = i0 + quad * 4u;
        if (k < sizes.k && i < pitch) {
            packed_{{ x }}[({{ "(entry * sizes.k + k)" if batched else "k" }} * pitch + i) / 4u] = {{ "turned[row][quad]" if along == "k" else "load(start + k * %s, i)" % ld }};
        }
    }
}
