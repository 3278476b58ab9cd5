// Activation functions, plain and as gates, with their gradients.
//
// -DACTIVATION_GELU, _GELU_TANH, _SILU, _RELU or _RELU2 says which. A thread takes a run of a row; gate and up lie in
// rows of their own strides, so that they may be columns of one matrix.
#include "cuda/common.cuh"

#if defined(ACTIVATION_GELU)
// Φ(x), the normal distribution; by erfc, so that its lower tail keeps its digits.
DEVICE float normal(float x) {
    return 0.5f * erfcf(x * -0.70710678118654752f);
}

// x Φ(x)
DEVICE float value_of(float x) {
    return x * normal(x);
}

// Φ(x) + x φ(x)
DEVICE float derivative_of(float x) {
    return fmaf(x, expf(x * x * -0.5f) * 0.39894228040143268f, normal(x));
}
#elif defined(ACTIVATION_GELU_TANH)
const float SLOPE = 0.79788456080286536f;
const float CUBE = 0.044715f;

// (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 as the logistic function, which keeps the digits of its lower tail.
DEVICE float share_of(float x) {
    return 1.0f / (1.0f + expf(-2.0f * SLOPE * x * fmaf(x * x, CUBE, 1.0f)));
}

DEVICE float value_of(float x) {
    return x * share_of(x);
}

DEVICE float derivative_of(float x) {
    float share = share_of(x), slope = 2.0f * SLOPE * fmaf(x * x, 3.0f * CUBE, 1.0f);
    return share + x * share * (1.0f - share) * slope;
}
#elif defined(ACTIVATION_SILU)
DEVICE float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

// x σ(x)
DEVICE float value_of(float x) {
    return x / (1.0f + expf(-x));
}

// σ(x) (1 + x (1 − σ(x)))
DEVICE float derivative_of(float x) {
    float share = sigmoid(x);
    return share * fmaf(x, 1.0f - share, 1.0f);
}
#elif defined(ACTIVATION_RELU)
DEVICE float value_of(float x) {
    return x > 0.0f ? x : 0.0f;
}

DEVICE float derivative_of(float x) {
    return x > 0.0f ? 1.0f : 0.0f;
}
#elif defined(ACTIVATION_RELU2)
// max(x, 0)²
DEVICE float value_of(float x) {
    return x > 0.0f ? x * x : 0.0f;
}

DEVICE float derivative_of(float x) {
    return x > 0.0f ? x + x : 0.0f;
}
#else
#error "which activation: -DACTIVATION_GELU or another"
#endif

// output = f(up)
KERNEL activation_forward(const Storage *up, Storage *output, u32 rows, u32 width) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * width + at.column;
    if (at.count == 0) {
        return;
    }
    Run x = load(up + place, at.count);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        x.values[lane] = value_of(x.values[lane]);
    }
    store(output + place, x, at.count);
}

// up_gradient = output_gradient · f′(up); both gradients may be one.
KERNEL activation_gradient(const Storage *up, const Storage *output_gradient, Storage *up_gradient, u32 rows, u32 width) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * width + at.column;
    if (at.count == 0) {
        return;
    }
    Run x = load(up + place, at.count), dy = load(output_gradient + place, at.count);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        dy.values[lane] *= derivative_of(x.values[lane]);
    }
    store(up_gradient + place, dy, at.count);
}

// output = f(gate) · up
KERNEL activation_gated_forward(const Storage *gate, const Storage *up, Storage *output, u32 rows, u32 width, u32 stride) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * stride + at.column;
    if (at.count == 0) {
        return;
    }
    Run x = load(gate + place, at.count), y = load(up + place, at.count);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        y.values[lane] *= value_of(x.values[lane]);
    }
    store(output + (u64)at.row * width + at.column, y, at.count);
}

// The gradients of gate, dy · up · f′(gate), and of up, dy · f(gate). The up gradient may lie where dy does.
KERNEL activation_gated_gradient(const Storage *gate, const Storage *up, const Storage *output_gradient,
                                 Storage *gate_gradient, Storage *up_gradient, u32 rows, u32 width, u32 stride) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * stride + at.column;
    if (at.count == 0) {
        return;
    }
    Run x = load(gate + place, at.count), y = load(up + place, at.count);
    Run dy = load(output_gradient + (u64)at.row * width + at.column, at.count);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        float gate_value = x.values[lane];
        x.values[lane] = dy.values[lane] * y.values[lane] * derivative_of(gate_value);
        y.values[lane] = dy.values[lane] * value_of(gate_value);
    }
    store(gate_gradient + place, x, at.count);
    store(up_gradient + place, y, at.count);
}

// What experts do of their slots: output = f(gate) · up · weight of the slot, or f(up) · weight where `gate` is null.
//
// Blocks of `slots` rows; the weights of a block lie behind `slots · hidden` elements of its `input`.
KERNEL activation_expert_forward(const Storage *gate, const Storage *up, const Storage *input, Storage *output,
                                 u32 rows, u32 width, u32 slots, u32 hidden) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * width + at.column;
    if (at.count == 0) {
        return;
    }
    u64 block = at.row / slots;
    float weight = wide(input[(block + 1) * slots * hidden + at.row]);
    Run y = load(up + place, at.count);
    Run x = load(gate + place, gate ? at.count : 0);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        float activated = gate ? value_of(x.values[lane]) * y.values[lane] : value_of(y.values[lane]);
        y.values[lane] = activated * weight;
    }
    store(output + place, y, at.count);
}

// The gradients of gate, up and the slot's weight, which is the product of the row's activation and its gradient. A
// block takes a row.
KERNEL activation_expert_gradient(const Storage *gate, const Storage *up, const Storage *input,
                                  const Storage *output_gradient, Storage *gate_gradient, Storage *up_gradient,
                                  Storage *input_gradient, u32 width, u32 slots, u32 hidden) {
    u64 row = blockIdx.x, of_weight = (row / slots + 1) * slots * hidden + row;
    float weight = wide(input[of_weight]), product = 0.0f;
    for (u32 column = threadIdx.x * RUN; column < width; column += blockDim.x * RUN) {
        u64 place = row * width + column;
        u32 count = left(width, column);
        Run x = load(gate + place, gate ? count : 0), y = load(up + place, count);
        Run dy = load(output_gradient + place, count);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float gradient = dy.values[lane], gate_value = x.values[lane], up_value = y.values[lane];
            float value = value_of(gate ? gate_value : up_value);
            product = fmaf(gate ? value * up_value : value, gradient, product);
            if (gate) {
                x.values[lane] = gradient * weight * up_value * derivative_of(gate_value);
                y.values[lane] = gradient * weight * value;
            } else {
                y.values[lane] = gradient * weight * derivative_of(up_value);
            }
        }
        if (gate) {
            store(gate_gradient + place, x, count);
        }
        store(up_gradient + place, y, count);
    }
    product = block_sum(product);
    if (threadIdx.x == 0) {
        input_gradient[of_weight] = narrow<Storage>(product);
    }
}
