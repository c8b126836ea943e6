//! What naga, the compiler of wgpu, says about WGSL texts with cooperative matrices: one line a file, `ok` or why not.
//! Each text that is right is written as SPIR-V, too, into a file of that name with the ending `spv`.

use naga::back::spv;
use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use std::path::{Path, PathBuf};
use std::{env, error::Error, fs, process::ExitCode};

/// Those that the manifests ask for: `wgpu-cooperative-matrix`, `subgroups` and `shader-f16`. No others.
const ASKED_FOR: Capabilities = Capabilities::COOPERATIVE_MATRIX
    .union(Capabilities::SUBGROUP)
    .union(Capabilities::SHADER_FLOAT16);

fn check(path: &Path) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let mut options = wgsl::Options::new();
    options.capabilities = ASKED_FOR;
    let module = wgsl::Frontend::new_with_options(options)
        .parse(&text)
        .map_err(|error| error.emit_to_string(&text))?;
    let info = Validator::new(ValidationFlags::all(), ASKED_FOR)
        .validate(&module)
        .map_err(|error| error.emit_to_string(&text))?;
    let options = spv::Options {
        lang_version: (1, 3), // the first with subgroups
        ..Default::default()
    };
    let words = spv::write_vec(&module, &info, &options, None)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(path.with_extension("spv"), bytes)?;
    Ok(())
}

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in env::args_os().skip(1).map(PathBuf::from) {
        match check(&path) {
            Ok(()) => println!("{}: ok", path.display()),
            Err(error) => {
                println!("{}: {}", path.display(), error.to_string().replace('\n', " "));
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
