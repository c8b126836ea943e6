//# if vector == 4
// Four neighbours along a row move as one vec4: K and N must be multiples of 4.

// A[row][k..k+3], where `row_start` = row·K.
fn load_a(row_start: u32, k: u32) -> vec4<Staged> {
    return vec4<Staged>(a[(row_start + k) / 4u]);
}

// The same in the last tile along K: zero past the end.
fn load_a_tail(row_start: u32, k: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_a(row_start, k);
}

// B[k][col..col+3]; columns past the end repeat the last ones and are never stored.
fn load_b(k: u32, col: u32) -> vec4<Staged> {
    return vec4<Staged>(b[(k * sizes.n + min(col, sizes.n - 4u)) / 4u]);
}

fn load_b_tail(k: u32, col: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_b(k, col);
}

// C[row][col..col+3] where it exists, in a matrix that starts at element `c_start`.
fn store_c(c_start: u32, row: u32, col: u32, sum: vec4<Sum>) {
    if (row < sizes.m && col < sizes.n) {
        c[(c_start + row * sizes.n + col) / 4u] = vec4<Result>(sum);
    }
}
//# else
// Element by element: K and N may be anything.

// A[row][k..k+3], where `row_start` = row·K.
fn load_a(row_start: u32, k: u32) -> vec4<Staged> {
    let i = row_start + k;
    return vec4<Staged>(Staged(a[i]), Staged(a[i + 1u]), Staged(a[i + 2u]), Staged(a[i + 3u]));
}

// The same in the last tile along K: zero past the end.
fn load_a_tail(row_start: u32, k: u32) -> vec4<Staged> {
    let i = row_start + k;
    var quad = vec4<Staged>();
    if (k < sizes.k) { quad.x = Staged(a[i]); }
    if (k + 1u < sizes.k) { quad.y = Staged(a[i + 1u]); }
    if (k + 2u < sizes.k) { quad.z = Staged(a[i + 2u]); }
    if (k + 3u < sizes.k) { quad.w = Staged(a[i + 3u]); }
    return quad;
}

// B[k][col..col+3]; columns past the end repeat the last one and are never stored.
fn load_b(k: u32, col: u32) -> vec4<Staged> {
    let row_start = k * sizes.n;
    let last = sizes.n - 1u;
    return vec4<Staged>(
        Staged(b[row_start + min(col, last)]),
        Staged(b[row_start + min(col + 1u, last)]),
        Staged(b[row_start + min(col + 2u, last)]),
        Staged(b[row_start + min(col + 3u, last)]),
    );
}

fn load_b_tail(k: u32, col: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_b(k, col);
}

// C[row][col..col+3] where it exists, in a matrix that starts at element `c_start`.
fn store_c(c_start: u32, row: u32, col: u32, sum: vec4<Sum>) {
    if (row >= sizes.m) { return; }
    let i = c_start + row * sizes.n + col;
    if (col < sizes.n) { c[i] = Result(sum.x); }
    if (col + 1u < sizes.n) { c[i + 1u] = Result(sum.y); }
    if (col + 2u < sizes.n) { c[i + 2u] = Result(sum.z); }
    if (col + 3u < sizes.n) { c[i + 3u] = Result(sum.w); }
}
//# endif
