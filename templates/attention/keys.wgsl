{#- The keys that a block of queries can see at all: everything outside is skipped. -#}
// From the first to behind the last key that any of the queries first to last sees.
fn seen_from(keys: u32, first: u32) -> u32 {
//# if window
    let least = first + keys + 1u;
    let hidden_before = sizes.seq + sizes.window;
    return select(0u, least - hidden_before, least > hidden_before);
//# else
    return 0u;
//# endif
}

fn seen_to(keys: u32, last: u32) -> u32 {
//# if causal or window
    let most = last + keys + {{ "1u" if causal else "sizes.window" }};
    return select(0u, min(keys, most - sizes.seq), most > sizes.seq);
//# else
    return keys;
//# endif
}
//# if tiles

// Whether each of the queries first to last sees all `count` keys from `begin` on.
fn all_seen(keys: u32, first: u32, last: u32, begin: u32, count: u32) -> bool {
//# set terms = ["begin + count <= keys"]
//# if causal
//# set terms = terms + ["begin + count + sizes.seq <= first + keys + 1u"]
//# endif
//# if window
//# set terms = terms + ["last + keys < begin + sizes.seq + sizes.window"]
//# if not causal
//# set terms = terms + ["begin + count + sizes.seq <= first + keys + sizes.window"]
//# endif
//# endif
    return {{ terms | join(" && ") }};
}
//# endif
