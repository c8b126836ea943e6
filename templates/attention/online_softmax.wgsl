{#-
What the passes share about softmax with exp2: m is the largest score of a row in units of log2, l the sum of
exp2(score − m). `wide` rows come four at a time.
-#}
//# set rows = "vec4<f32>" if wide else "f32"
const LOG2_E: f32 = 1.4426950408889634;
const LN_2: f32 = 0.6931471805599453;
// No infinities (WGSL may assume that there are none). A masked score lies so far below any maximum, even
// the one that a row starts with, that exp2 of the difference is 0.
const MASKED: f32 = -1e36;
const NO_KEYS: f32 = -2e30;  // the maximum of a row that has seen no key
const NO_SUM: f32 = -1e30;  // told as the logarithm of its sum
const TINY: f32 = 1e-30;

// What sums of P·V are multiplied by: 1 / l, and 0 for a row that saw no key.
fn share(m: {{ rows }}, l: {{ rows }}) -> {{ rows }} {
    return select({{ rows }}(), {{ rows }}(1.0) / max(l, {{ rows }}(TINY)), m > {{ rows }}(NO_KEYS));
}
//# if "lse" in uses

fn log_sum(m: f32, l: f32) -> f32 {
    return select(NO_SUM, (m + log2(max(l, TINY))) * LN_2, m > NO_KEYS);
}
//# endif
//# if "sinks" in uses

// The score that a head's softmax has besides those of its keys.
fn sink_of(head: u32) -> f32 {
    return head_terms[{{ "sizes.heads + " if alibi }}head] * LOG2_E;
}
//# endif
