"""A WebGPU host that knows an export's manifest and WGSL and nothing of this package.

    python manifest_host.py DIRECTORY '{"m": 5, "n": 8, "k": 12}'

Runs the kernel for these sizes on random data and prints the largest error against float64.
"""

import hashlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import wgpu

KINDS = {"f32": np.float32, "f16": np.float16, "u32": np.uint32}


def value(expression, sizes):
    """A size of the manifest."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return sizes[expression]
    ((operation, operands),) = expression.items()
    values = [value(operand, sizes) for operand in operands]
    if operation == "ceilDiv":
        return -(-values[0] // values[1])
    return {"add": sum, "mul": math.prod}[operation](values)


def main():
    """Run one export."""
    directory, sizes = Path(sys.argv[1]), json.loads(sys.argv[2])
    manifest = json.loads((directory / "manifest.json").read_text())
    for size, multiple in manifest["sizeMultiples"].items():
        assert sizes[size] % multiple == 0, f"{size} must be a multiple of {multiple}"
    if manifest["sizesBakedIn"]:
        assert sizes == manifest["sizes"], "the sizes are baked in"
    device = wgpu.gpu.request_adapter_sync().request_device_sync(
        required_features=manifest["requiredFeatures"], required_limits=manifest["requiredLimits"]
    )
    usage = wgpu.BufferUsage
    random = np.random.default_rng(1)
    data, buffers = {}, {}
    for buffer in manifest["buffers"]:
        shape = [value(extent, sizes) for extent in buffer["shape"]]
        kind = KINDS[buffer["element"]]
        if buffer["role"] == "uniform":
            fields = np.zeros(math.ceil((manifest["uniform"][-1]["offset"] + 4) / 16) * 4, np.uint32)
            for field in manifest["uniform"]:
                assert field["type"] == "u32"
                fields[field["offset"] // 4] = sizes[field["name"]]
            buffers[buffer["name"]] = device.create_buffer_with_data(data=fields, usage=usage.UNIFORM)
        elif buffer["role"] == "input":
            data[buffer["name"]] = (random.random(shape) - 0.5).astype(kind)
            buffers[buffer["name"]] = device.create_buffer_with_data(
                data=data[buffer["name"]], usage=usage.STORAGE
            )
        else:
            size = max(math.prod(shape) * np.dtype(kind).itemsize, 16)
            buffers[buffer["name"]] = device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_SRC)
    binding = {buffer["name"]: buffer["binding"] for buffer in manifest["buffers"]}
    encoder = device.create_command_encoder()
    for step in manifest["passes"]:
        code = (directory / step["file"]).read_text(encoding="utf-8")
        assert hashlib.sha256(code.encode()).hexdigest() == step["sha256"]
        types = {
            buffer["binding"]: "read-only-storage" if name in step["onlyRead"] else buffer["type"]
            for buffer in manifest["buffers"]
            if (name := buffer["name"]) in step["buffers"]
        }
        layout = device.create_bind_group_layout(
            entries=[
                {"binding": place, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                for place, kind in types.items()
            ]
        )
        pipeline = device.create_compute_pipeline(
            layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": device.create_shader_module(code=code), "entry_point": step["entryPoint"]},
        )
        entries = [
            {
                "binding": binding[name],
                "resource": {"buffer": buffers[name], "offset": 0, "size": buffers[name].size},
            }
            for name in step["buffers"]
        ]
        compute_pass = encoder.begin_compute_pass()
        compute_pass.set_pipeline(pipeline)
        compute_pass.set_bind_group(0, device.create_bind_group(layout=layout, entries=entries))
        count = value(step["workgroups"], sizes)
        rows = -(-count // 65_535)
        compute_pass.dispatch_workgroups(-(-count // rows), rows)
        compute_pass.end()
    device.queue.submit([encoder.finish()])
    expected = data["a"].astype(np.float64) @ data["b"].astype(np.float64)
    raw = device.queue.read_buffer(buffers["c"])
    got = np.frombuffer(raw, data["a"].dtype)[: expected.size].reshape(expected.shape)
    print("largest error", float(np.abs(got - expected).max()))


if __name__ == "__main__":
    main()
