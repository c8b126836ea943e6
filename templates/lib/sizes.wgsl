// The sizes of the problem{{ ", baked in: this text is right for these alone" if baked else ", given at run time: one text serves them all" }}.
struct Sizes { {% for name in size_names %}{{ name }}: u32, {% endfor %}}
//# if baked
const sizes = Sizes({% for name in size_names %}{{ size_values[name] }}u, {% endfor %});
//# else
@group(0) @binding(0) var<uniform> sizes: Sizes;
//# endif
