{#-
From products q·k to scores: what is added, what is masked. Scores are in units of log2, so that a softmax
needs exp2 alone: Q is multiplied by q_factor() when it is loaded. With `wide`, functions take four queries and
one key at a time.
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

//# set floats = "vec4<f32>" if wide else "f32"
//# set uints = "vec4<u32>" if wide else "u32"
//# set ints = "vec4<i32>" if wide else "i32"
//# set bools = "vec4<bool>" if wide else "bool"
//# set lanes = ["x", "y", "z", "w"] if wide else [""]
// Whether a query must not see a key. Query i stands at position i + keys - seq.
fn hidden(keys: u32, row: {{ uints }}, key: u32) -> {{ bools }} {
    var outside = {{ bools }}(key >= keys);
//# if causal
    outside |= row + keys < {{ uints }}(key + sizes.seq);
//# endif
//# if window
    outside |= row + keys >= {{ uints }}(key + sizes.seq + sizes.window);
//# if not causal
    outside |= row + (keys + sizes.window) <= {{ uints }}(key + sizes.seq);
//# endif
//# endif
    return outside;
}

// The score of a key: of q·k times the factor, for a query inside the problem and a key that may be past its end.
fn finish(product: {{ floats }}, place: Place, row: {{ uints }}, key: u32) -> {{ floats }} {
    var score = product;
//# if softcap
    let bent = tanh(clamp(score, {{ floats }}(-TANH_LIMIT), {{ floats }}(TANH_LIMIT)));
    score = sizes.softcap * LOG2_E * bent;
//# endif
//# if alibi
    score -= place.slope * abs({{ floats }}({{ ints }}(row + place.keys) - {{ ints }}(i32(key + sizes.seq))));
//# endif
//# if mask != "none"
    let at = place.mask + row * sizes.mask_row + min(key, sizes.kv_seq - 1u);
//# endif
//# if mask == "bias"
    let bias = {{ floats }}({% for c in lanes %}{{ "f32(" }}mask[at{{ "." + c if c }}]{{ ")" }}{{ ", " if not loop.last }}{% endfor %});
    score = select(score + bias * LOG2_E, {{ floats }}(MASKED), bias <= {{ floats }}(NO_BIAS));
//# elif mask == "bool"
    let words = {{ uints }}({% for c in lanes %}mask[at{{ "." + c if c }} / 4u]{{ ", " if not loop.last }}{% endfor %});
    let kept = (words >> (at % 4u * 8u)) & {{ uints }}(255u);
    score = select(score, {{ floats }}(MASKED), kept == {{ uints }}(0u));
//# endif
    return select(score, {{ floats }}(MASKED), hidden(place.keys, row, key));
}
