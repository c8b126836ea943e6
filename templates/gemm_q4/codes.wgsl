//# if dequant == "subtract"
// The four codes in the lower or upper half of a word, minus the zero point.
fn lower_codes(word: u32) -> vec4<Sum> { return four_weights(word); }
fn upper_codes(word: u32) -> vec4<Sum> { return four_weights(word >> 16u); }
//# elif dequant == "convert"
// The four codes in the lower or upper half of a word, converted from integers. The zero point is taken
// out once for a whole load, as ZERO · Σ a.
const UNIT: Sum = 1.0;
const ZERO: vec4<Sum> = vec4<Sum>(8.0);
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
//# else
// The four codes in the lower or upper half of a word, in sixteenths and above a ZERO of their own. Put into
// the upper bits of a mantissa, the code q at bit 19 makes 1 + q/16, and its neighbour at bit 15, under the
// exponent of 16, makes 16 + q/16; so one shift serves two codes, and each costs an `and` and an `or`, which
// many GPUs do at once. ZERO, with the zero point, is taken out once for a whole load, as ZERO · Σ a; those
// sums are short, so that little is lost beside the larger numbers.
const UNIT: Sum = 16.0;
const ZERO: vec4<Sum> = vec4<Sum>(16.5, 1.5, 16.5, 1.5);
fn placed(word: vec4<u32>) -> vec4<Sum> {
    let codes = word & vec4<u32>(0x78000u, 0x780000u, 0x78000u, 0x780000u);
    return bitcast<vec4<f32>>(codes | vec4<u32>(0x41800000u, 0x3f800000u, 0x41800000u, 0x3f800000u));
}

fn lower_codes(word: u32) -> vec4<Sum> {
    let first = word << 15u;
    let second = word << 7u;
    return placed(vec4<u32>(first, first, second, second));
}

fn upper_codes(word: u32) -> vec4<Sum> {
    let first = word >> 1u;
    let second = word >> 9u;
    return placed(vec4<u32>(first, first, second, second));
}
//# endif
