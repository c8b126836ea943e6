//# if f16
enable f16;

//# endif
// Packs {{ x | upper }} for the pass that multiplies: a copy with rows across K, of whole {{ step }} elements, whatever rows were
// before. An invocation carries a block of 4×4 elements{{ ", turned around in registers" if along == "k" }}; a workgroup has 16×16 of them. Past the
// last {{ "row" if x == "a" else "column" }} the last one is repeated: those products are never stored.
// (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008.)
//
//        {{ "K →" if along == "k" else across | upper ~ " →" }}                        {{ across | upper }} →
//     ┌──────────┐               ┌───────────┬──┐
//   {{ across | upper if along == "k" else "K" }} │ {{ "0 1 2 3 " if along == "k" else "0 1 2 3 " }} │             K │ {{ "0 4 8 c " if along == "k" else "0 1 2 3 " }}  │  │    rows end in a repeated
//   ↓ │ {{ "4 5 6 7 " if along == "k" else "4 5 6 7 " }} │      ──→    ↓ │ {{ "1 5 9 d " if along == "k" else "4 5 6 7 " }}  │  │    {{ "row" if x == "a" else "column" }} of {{ x | upper }}
//     └──────────┘               └───────────┴──┘
//
//   lanes_k    of neighbouring invocations, how many lie along K: as many as read neighbours, e.g. 4
{% include "lib/sizes.wgsl" %}

alias Stored = {{ dtype }};
@group(0) @binding({{ from_binding }}) var<storage, read> {{ x }}: array<{{ "vec4<Stored>" if vector == 4 else "Stored" }}>;
@group(0) @binding({{ to_binding }}) var<storage, read_write> packed_{{ x }}: array<vec4<Stored>>;

{% include "lib/grid.wgsl" %}

const TILE = {{ tile }}u;
const BLOCKS = TILE / 4u;
const INVOCATIONS = BLOCKS * BLOCKS;
const LANES_K = {{ lanes_k }}u;

// Four neighbours of the row that starts at element `row`, from `i` on, of `count` there are.
fn load(row: u32, i: u32, count: u32) -> vec4<Stored> {
//# if vector == 4
    return {{ x }}[(row + min(i, {{ ld }} - 4u)) / 4u];
//# else
    let last = count - 1u;
    return vec4<Stored>({{ x }}[row + min(i, last)], {{ x }}[row + min(i + 1u, last)], {{ x }}[row + min(i + 2u, last)], {{ x }}[row + min(i + 3u, last)]);
//# endif
}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    // Which tile, and which block of it.
    let size = {{ size }};
    let tiles = (size + TILE - 1u) / TILE;
    let tiles_k = (sizes.k + TILE - 1u) / TILE;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles * tiles_k{{ " * sizes.batch" if batched }}) { return; }
//# if batched
    let entry = id / (tiles * tiles_k);  // of the batch
//# endif
    let block_k = invocation % LANES_K + invocation / (LANES_K * BLOCKS) * LANES_K;
    let block = invocation / LANES_K % BLOCKS;
    let k = id / tiles % tiles_k * TILE + block_k * 4u;
    let i = id % tiles * TILE + block * 4u;
    let pitch = (size + {{ step - 1 }}u) / {{ step }}u * {{ step }}u;
    if (k >= sizes.k || i >= pitch) { return; }
    let start = {{ start }};
    let at = ({{ "entry * sizes.k + " if batched }}k) * pitch + i;
    let rows = min(sizes.k - k, 4u);

//# for r in range(4)
//# if along == "k"
    let line_{{ r }} = load(start + min(i + {{ r }}u, size - 1u) * {{ ld }}, k, sizes.k);
//# else
    let line_{{ r }} = load(start + min(k + {{ r }}u, sizes.k - 1u) * {{ ld }}, i, size);
//# endif
//# endfor
//# for r in range(4)
    {{ "if (rows > %du) { " % r if r }}packed_{{ x }}[{{ "(at + %du * pitch)" % r if r else "at" }} / 4u] = {{ "vec4<Stored>(line_0.%s, line_1.%s, line_2.%s, line_3.%s)" % ("xyzw"[r], "xyzw"[r], "xyzw"[r], "xyzw"[r]) if along == "k" else "line_%d" % r }};{{ " }" if r }}
//# endfor
}
