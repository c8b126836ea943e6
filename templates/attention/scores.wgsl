{#-
From products q·k to scores: what is added, what is masked. Scores are in units of log2, so that a softmax
needs exp2 alone: Q is multiplied by Q_FACTOR when it is loaded.
-#}
//# if mask == "bias"
const NO_BIAS: f32 = {{ "-65504.0" if dtype == "f16" else "-1e30" }};  // biases of no more than this mask a key
//# endif
//# if softcap
const TANH_LIMIT: f32 = 15.0;  // tanh is 1 from here on; some drivers overflow further out
//# endif

fn q_factor() -> f32 {
    return {{ "sizes.scale / sizes.softcap" if softcap else "sizes.scale * LOG2_E" }};
}

// What the scores of a query head depend on besides Q and K.
struct Place {
    keys: u32,
//# if mask != "none"
    mask: u32,  // first element of the head's mask
//# endif
//# if alibi
    slope: f32,
//# endif
}

fn place_of(batch: u32, head: u32) -> Place {
    var place: Place;
    place.keys = keys_of(batch);
//# if mask != "none"
    place.mask = batch * sizes.mask_batch + head * sizes.mask_head;
//# endif
//# if alibi
    place.slope = head_terms[head] * LOG2_E;
//# endif
    return place;
}

// Whether a query must not see a key. Query i stands at position i + keys - seq.
fn hidden(keys: u32, row: u32, key: u32) -> bool {
//# set terms = ["key >= keys"]
//# if causal
//# set terms = terms + ["key + sizes.seq > row + keys"]
//# endif
//# if window
//# set terms = terms + ["row + keys >= key + sizes.seq + sizes.window"]
//# if not causal
//# set terms = terms + ["key + sizes.seq >= row + keys + sizes.window"]
//# endif
//# endif
    return {{ terms | join(" || ") }};
}

// The score of a key: of q·k times the factor, for a query and a key inside the problem or a key past its end.
fn finish(product: f32, place: Place, row: u32, key: u32) -> f32 {
    var score = product;
//# if softcap
    score = sizes.softcap * LOG2_E * tanh(clamp(score, -TANH_LIMIT, TANH_LIMIT));
//# endif
//# if alibi
    score -= place.slope * abs(f32(i32(row + place.keys) - i32(key + sizes.seq)));
//# endif
//# if mask == "bias"
    let bias = f32(mask[place.mask + row * sizes.mask_row + min(key, sizes.kv_seq - 1u)]);
    score = select(score + bias * LOG2_E, MASKED, bias <= NO_BIAS);
//# elif mask == "bool"
    let byte = place.mask + row * sizes.mask_row + min(key, sizes.kv_seq - 1u);
    let kept = mask[byte / 4u] >> (byte % 4u * 8u) & 255u;
    score = select(score, MASKED, kept == 0u);
//# endif
    return select(score, MASKED, hidden(place.keys, row, key));
}
//# if tiles

// The same for four queries.
fn masked(products: vec4<f32>, place: Place, rows: vec4<u32>, key: u32) -> vec4<f32> {
    return vec4<f32>(
        finish(products.x, place, rows.x, key),
        finish(products.y, place, rows.y, key),
        finish(products.z, place, rows.z, key),
        finish(products.w, place, rows.w, key),
    );
}
//# endif
