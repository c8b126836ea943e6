// Dot products of whole numbers, four at a time. k that share a unit, a power of two, hold A in fixed point:
// 22 bits and a sign, so that each is off by up to 2^-22 of the largest, near what an f32 sum with that in it
// keeps. Such a number is written in three signed digits to the base 256, and an instruction multiplies four
// digits by four codes; the sums of each digit are exact.
//
//    A:  a₀ a₁ … a₁₅ → a = unit · (d₂·2¹⁶ + d₁·2⁸ + d₀)        digits of k = 0 2 4 6 │ 1 3 5 7 │ 8 … │ 9 …
//    W:  a word, lowest nibble first → 16 · (code − 8) of k =            0 2 4 6 │ 1 3 5 7

// A float with this integer's bits counts in ones: integers become floats, and back, by adding it.
const MAGIC = 0x4b400000;
const MAGIC_NUMBER = 12582912.0;  // 3·2²²

// The codes of two words less 8, in the upper halves of signed bytes.
fn signed_codes(two: vec2<u32>) -> vec4<u32> {
    return (vec4<u32>(two.x << 4u, two.x, two.y << 4u, two.y) & vec4<u32>(0xf0f0f0f0u)) ^ vec4<u32>(0x80808080u);
}

fn add_digits(sum: i32, digits: vec4<u32>, codes: vec4<u32>) -> i32 {
    return sum + dot4I8Packed(digits.x, codes.x) + dot4I8Packed(digits.y, codes.y) + dot4I8Packed(digits.z, codes.z) + dot4I8Packed(digits.w, codes.w);
}

// The number whose digits' sums these are, each MAGIC too large.
fn number(d_0: i32, d_1: i32, d_2: i32) -> Sum {
    let upper = fma(bitcast<f32>(d_2) - MAGIC_NUMBER, 65536.0, (bitcast<f32>(d_1) - MAGIC_NUMBER) * 256.0);
    return upper + (bitcast<f32>(d_0) - MAGIC_NUMBER);
}

fn peak(a: vec4<Sum>, b: vec4<Sum>, c: vec4<Sum>, d: vec4<Sum>) -> Sum {
    let most = max(max(abs(a), abs(b)), max(abs(c), abs(d)));
    return max(max(most.x, most.y), max(most.z, most.w));
}

// The exponent of the largest number, in place; not so small that a reciprocal of its power were too large.
fn exponent_of(peak: Sum) -> u32 { return bitcast<u32>(max(peak, 0x1p-100f)) & 0x7f800000u; }

// A sixteenth, for codes in upper halves, of the unit that leaves 22 bits: 2^-21 of the power of two.
fn unit_of(exponent: u32) -> Sum { return bitcast<f32>(exponent - (25u << 23u)); }

// [digit] of 16 k in the order of `signed_codes`, four a word.
fn digits_of(a: vec4<Sum>, b: vec4<Sum>, c: vec4<Sum>, d: vec4<Sum>, exponent: u32) -> array<vec4<u32>, 3> {
    let per_unit = bitcast<f32>((275u << 23u) - exponent);
    let t_0 = three_digits(vec4<Sum>(a.xy, c.xy), per_unit);
    let t_1 = three_digits(vec4<Sum>(a.zw, c.zw), per_unit);
    let t_2 = three_digits(vec4<Sum>(b.xy, d.xy), per_unit);
    let t_3 = three_digits(vec4<Sum>(b.zw, d.zw), per_unit);
    let low = vec4<u32>(0xffu);
    let mid = vec4<u32>(0xff00u);
    let high = vec4<u32>(0xff0000u);
    let by_8 = vec4<u32>(8u);
    let by_16 = vec4<u32>(16u);
    return array<vec4<u32>, 3>(
        (t_0 & low) | ((t_1 & low) << by_8) | ((t_2 & low) << by_16) | (t_3 << vec4<u32>(24u)),
        ((t_0 & mid) >> by_8) | (t_1 & mid) | ((t_2 & mid) << by_8) | ((t_3 & mid) << by_16),
        (t_0 >> by_16) | ((t_1 & high) >> by_8) | (t_2 & high) | ((t_3 & high) << by_8),
    );
}

// Four numbers in units, each as three signed bytes: 128 more in each byte makes them unsigned, with no borrows
// between them, and flipping the upper bits takes it off again.
fn three_digits(a: vec4<Sum>, per_unit: Sum) -> vec4<u32> {
    let ones = bitcast<vec4<u32>>(fma(a, vec4<Sum>(per_unit), vec4<Sum>(MAGIC_NUMBER)));
    return (ones - vec4<u32>(u32(MAGIC) - 0x808080u)) ^ vec4<u32>(0x808080u);
}
