// The sizes of the problem{{ ", baked in: this text is right for these alone" if baked else ", given at run time: one text serves them all" }}.
struct Sizes { {% for name in size_values %}{{ name }}: u32, {% endfor %}{% for name in scalar_values %}{{ name }}: f32, {% endfor %}}
//# if baked
const sizes = Sizes({% for value in size_values.values() %}{{ value }}u, {% endfor %}{% for value in scalar_values.values() %}f32({{ value }}), {% endfor %});
//# else
@group(0) @binding(0) var<uniform> sizes: Sizes;
//# endif
