{#-
Carrying tiles of an operand from memory to the workgroup array `tiles`, for matrix units.

A tile keeps the order that its matrix has in memory, since matrix units load columns as well as rows. It moves
in words, of which one holds `per` elements: 16 or 8 bytes that lie together, loaded and stored at once and never
unpacked. (Element by element the stores alone took most of the time on an NVIDIA H200.) Tint takes an
array of words for an array of elements; offsets and strides then count words.

An operand is described by

  x         its name, "a" or "b"
  across    extent of its tile across k: TILE_M or TILE_N
  along     the axis that is contiguous in memory: "k" or "outer"
  unit      elements that one access of memory moves: `per` where rows are whole words, else fewer
  tile      first line of the tile, as a WGSL expression
  size, ld, start   lines, elements a row, first element: WGSL expressions
  own       whether the text around it says how the operand is loaded and what becomes of it on its way:
            `alias Raw_x`, `load_x`, `load_x_some`, and `made_x`, which makes a word of a Raw_x
  place     word of `tiles` at which its tile starts: a WGSL expression
  pitch     words of `tiles` from a row to the next
  abreast   lines of the tile that lie in a row of `tiles`, `tall` of them apart

Short lines lie abreast, so that a row reaches over all banks: eight neighbours store 128 bytes into as many
banks, and with a word of pad eight rows of a matrix are loaded from different ones. For lines of four words:

    row 0    line 0       line tall        pad
    row 1    line 1       line tall + 1    pad

Every index into `tiles` is the sum of a constant and of remainders and quotients of the invocation's number, or a
remainder of something else: Tint proves such an index to be in range and leaves it as it is. (It proves nothing
about `&`, `^` or a variable that is assigned to, and puts a clamp there.)
-#}

{#- What one access of memory gives, and its type; of a word it is `unit` elements. Half a u32 is none. -#}
{% macro access(op) %}{{ {2: "u32", 4: "u32", 8: "vec2<u32>", 16: "vec4<u32>"}[op.unit * word // per] }}{% endmacro %}

{#- Words of memory, for where the matrix goes on and, with `edge`, for where it may end. -#}
{% macro loads(op, edge) %}
//# if op.unit == per
// {{ op.x | upper }}: a word at a time; `at` counts words.
fn load_{{ op.x }}(at: u32) -> Word {
    return {{ op.x }}[at];
}
//# if edge

// The same where only `count` elements from there on exist; the others are zero. Rows are whole words.
fn load_{{ op.x }}_some(at: u32, count: u32) -> Word {
    if (count == 0u) { return Word(); }
    return {{ op.x }}[at];
}
//# endif
//# elif op.unit * word == 2 * per
//# set pairs = word // 4
// {{ op.x | upper }}: rows may begin in the middle of a u32, so a word is cut out of {{ pairs + 1 }} of them; `at` counts elements.
fn load_{{ op.x }}(at: u32) -> Word {
//# for i in range(pairs + 1)
    let e{{ i }} = {{ op.x }}[at / 2u + {{ i }}u];
//# endfor
    let even = {{ word_of(0, pairs) }};
    let odd = (even >> Word(16u)) | ({{ word_of(1, pairs) }} << Word(16u));
    return select(even, odd, at % 2u == 1u);
}
//# if edge

// The same where only `count` elements from there on exist; the others are zero.
fn load_{{ op.x }}_some(at: u32, count: u32) -> Word {
    let first = Word({% for i in range(pairs) %}{{ 2 * i }}u{{ ", " if not loop.last }}{% endfor %});
    let there = select(Word(), Word(0xffffu), first < Word(count))
        | select(Word(), Word(0xffff0000u), first + Word(1u) < Word(count));
    return load_{{ op.x }}(at) & there;
}
//# endif
//# else
//# set parts = per // op.unit
// {{ op.x | upper }}: a word in {{ parts }} accesses, since rows need not be whole words; `at` counts accesses.
fn load_{{ op.x }}(at: u32) -> Word {
//# for i in range(parts)
    let e{{ i }} = {{ op.x }}[at + {{ i }}u];
//# endfor
    return {{ word_of(0, parts) }};
}
//# if edge

// The same where only `count` elements from there on exist; the others are zero.
fn load_{{ op.x }}_some(at: u32, count: u32) -> Word {
//# for i in range(parts)
    var e{{ i }} = {{ access(op) }}();
    if (count > {{ i * op.unit }}u) { e{{ i }} = {{ op.x }}[at + {{ i }}u]; }
//# endfor
    return {{ word_of(0, parts) }};
}
//# endif
//# endif
{% endmacro %}
{#- A word of `parts` things that were read, e0, e1 … from the first on. -#}
{% macro word_of(first, parts) %}Word({% for i in range(parts) %}e{{ first + i }}{{ ", " if not loop.last }}{% endfor %}){% endmacro %}

{% macro row_words(op) %}{{ (tile_k if op.along == "k" else op.across) // per }}{% endmacro %}
{#- Rows of `tiles` that the tile takes: line `tall` lies beside line 0. -#}
{% macro tall(op) %}{{ (op.across if op.along == "k" else tile_k) // op.abreast }}{% endmacro %}
{#- Where a word of a line is, from the tile's place on; both are numbers. -#}
{% macro spot(op, line, word) %}{{ "%du * %s + %du" % (line % tall(op) | int, op.pitch, line // tall(op) | int * row_words(op) | int + word) }}{% endmacro %}
{#- Where the part of a subgroup begins that has `lines` lines and is the `part`-th, a WGSL expression. -#}
{% macro part_spot(op, part, lines) %}
//# set rows = tall(op) | int
//# if op.abreast == 1
{{ "%s * (%du * %s)" % (part, lines, op.pitch) }}
//# elif rows > lines
{{ "%s %% %du * (%du * %s) + %s / %du * %su" % (part, rows // lines, lines, op.pitch, part, rows // lines, row_words(op)) }}
//# else
{{ "%s * %du" % (part, lines // rows * row_words(op) | int) }}
//# endif
{% endmacro %}
{% macro pieces(op) %}{{ op.across * tile_k // per }}{% endmacro %}
{% macro steps(op) %}{{ [pieces(op) | int // invocations, 1] | max }}{% endmacro %}
{#- A count of elements as one of accesses. -#}
{% macro accesses(op, elements) %}{{ elements if op.unit == 1 else "(%s) / %du" % (elements, op.unit) }}{% endmacro %}

{% macro places(op) %}
    // Which words of {{ op.x | upper }}'s tile this invocation carries{{ ". Lines past the edge read the last one; they are never stored" if op.along == "k" else "" }}.
//# set line = row_words(op) | int
//# set row = line * op.abreast
//# set count = pieces(op) | int
//# for s in range(steps(op) | int)
//# if s == 0 or invocations % row != 0
    let {{ op.x }}_piece_{{ s }} = {{ "invocation %% %du" % count if count < invocations else "invocation" if s == 0 else "invocation + %du" % (s * invocations) }};
    let {{ op.x }}_line_{{ s }} = {{ op.x }}_piece_{{ s }} / {{ row }}u{{ " + %s_piece_%d %% %du / %du * %su" % (op.x, s, row, line, tall(op)) if op.abreast > 1 }};
    let {{ op.x }}_word_{{ s }} = {{ op.x }}_piece_{{ s }} % {{ line }}u;
    let {{ op.x }}_place_{{ s }} = {{ op.place }} + {{ "%s_piece_%d / %du" % (op.x, s, row) if op.abreast > 1 else "%s_line_%d" % (op.x, s) }} * {{ op.pitch }} + {{ "%s_piece_%d %% %du" % (op.x, s, row) if op.abreast > 1 else "%s_word_%d" % (op.x, s) }};
//# else
    let {{ op.x }}_line_{{ s }} = {{ op.x }}_line_0 + {{ s * (invocations // row) }}u;
    let {{ op.x }}_word_{{ s }} = {{ op.x }}_word_0;
    let {{ op.x }}_place_{{ s }} = {{ op.x }}_place_0 + {{ s * (invocations // row) }}u * {{ op.pitch }};
//# endif
//# if op.along == "k"
    let {{ op.x }}_at_{{ s }} = {{ accesses(op, "%s + min(%s + %s_line_%d, %s - 1u) * %s + %s_word_%d * WORD" % (op.start, op.tile, op.x, s, op.size, op.ld, op.x, s)) }};
//# elif op.unit == per
    let {{ op.x }}_at_{{ s }} = {{ accesses(op, "%s + %s_line_%d * %s + min(%s + %s_word_%d * WORD, %s - WORD)" % (op.start, op.x, s, op.ld, op.tile, op.x, s, op.size)) }};
//# else
    let {{ op.x }}_at_{{ s }} = {{ accesses(op, "%s + %s_line_%d * %s + %s + %s_word_%d * WORD" % (op.start, op.x, s, op.ld, op.tile, op.x, s)) }};
//# endif
    var next_{{ op.x }}_{{ s }} = {{ "Raw_" ~ op.x if op.own else "Word" }}();
//# endfor
//# if inside(op) | trim
    let {{ op.x }}_inside = {{ op.tile }} + {{ op.across }}u <= {{ op.size }};
//# endif
{% endmacro %}
{#- What must hold for the whole tile to lie inside the matrix across k, where reading past it is not clamped. -#}
{% macro inside(op) %}{{ op.x + "_inside" if op.along == "outer" and op.unit != per }}{% endmacro %}

{% macro some(op) %}
//# if pieces(op) | int < invocations
        if (invocation < {{ pieces(op) }}u) {
{{ caller() }}
        }
//# else
{{ caller() }}
//# endif
{% endmacro %}

{#- Memory -> registers: the tile that starts at k0. With `edge`, what lies outside the matrix is zero. -#}
{% macro fetch(op, k0, edge) %}
{% call some(op) %}
//# set ahead = accesses(op, k0 if op.along == "k" else "%s * %s" % (k0, op.ld))
//# for s in range(steps(op) | int)
//# if not edge
            next_{{ op.x }}_{{ s }} = load_{{ op.x }}({{ op.x }}_at_{{ s }} + {{ ahead }});
//# elif op.along == "k"
            next_{{ op.x }}_{{ s }} = load_{{ op.x }}_some({{ op.x }}_at_{{ s }} + {{ ahead }}, left(sizes.k, {{ k0 }} + {{ op.x }}_word_{{ s }} * WORD));
//# else
            next_{{ op.x }}_{{ s }} = load_{{ op.x }}_some({{ op.x }}_at_{{ s }} + {{ ahead }}, select(0u, left({{ op.size }}, {{ op.tile }} + {{ op.x }}_word_{{ s }} * WORD), {{ k0 }} + {{ op.x }}_line_{{ s }} < sizes.k));
//# endif
//# endfor
{% endcall %}
{% endmacro %}

{#- Registers -> workgroup memory, `buffer` words further on. -#}
{% macro commit(op, buffer) %}
{% call some(op) %}
//# for s in range(steps(op) | int)
            tiles[{{ op.x }}_place_{{ s }}{{ buffer }}] = {{ "made_%s(next_%s_%d)" % (op.x, op.x, s) if op.own else "next_%s_%d" % (op.x, s) }};
//# endfor
{% endcall %}
{% endmacro %}
