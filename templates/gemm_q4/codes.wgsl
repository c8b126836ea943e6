//# if dequant == "subtract"
// The four codes in the lower or upper half of a word, minus the zero point.
fn lower_codes(word: u32) -> vec4<Sum> { return four_weights(word); }
fn upper_codes(word: u32) -> vec4<Sum> { return four_weights(word >> 16u); }
//# else
// The four codes in the lower or upper half of a word, as they are: the zero point is taken out once for all
// codes that share a scale, as ZERO · Σ a.
const ZERO = 8.0;
fn lower_codes(word: u32) -> vec4<Sum> {
    let even = unpack4xU8(word & 0x0f0f0f0fu);
    let odd = unpack4xU8((word >> 4u) & 0x0f0f0f0fu);
    return vec4<Sum>(vec4<u32>(even.x, odd.x, even.y, odd.y));
}

fn upper_codes(word: u32) -> vec4<Sum> {
    let even = unpack4xU8(word & 0x0f0f0f0fu);
    let odd = unpack4xU8((word >> 4u) & 0x0f0f0f0fu);
    return vec4<Sum>(vec4<u32>(even.z, odd.z, even.w, odd.w));
}
//# endif
