// The operands, row-major: A is M×K, B is K×N, C is M×N. `Stored` is their element type, `Sum` the
// type that sums are kept in, `Staged` the type held in workgroup memory.
alias Stored = {{ dtype }};
alias Sum = {{ accumulate }};
//# if staged is defined
alias Staged = {{ accumulate if staged == "accumulator" else dtype }};
//# endif
//# if vector == 4
@group(0) @binding(1) var<storage, read> a: array<vec4<Stored>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<Stored>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<Stored>>;
//# else
@group(0) @binding(1) var<storage, read> a: array<Stored>;
@group(0) @binding(2) var<storage, read> b: array<Stored>;
@group(0) @binding(3) var<storage, read_write> c: array<Stored>;
//# endif
