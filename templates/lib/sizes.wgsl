//# if baked
// Sizes baked in: this kernel is right for these sizes only.
struct Sizes { {% for name in size_names %}{{ name }}: u32, {% endfor %}}
const sizes = Sizes({% for name in size_names %}{{ size_values[name] }}u, {% endfor %});
//# else
// Sizes arrive at run time, so one kernel serves every size.
struct Sizes { {% for name in size_names %}{{ name }}: u32, {% endfor %}}
@group(0) @binding(0) var<uniform> sizes: Sizes;
//# endif
