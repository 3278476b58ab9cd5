// AdamW (Loshchilov and Hutter, ICLR 2019, algorithm 2), with the order of operations of `torch.optim.AdamW`: one pass
// over gradients, parameters and moments. A thread takes a run.
#include "cuda/common.cuh"

// What one step does to each element, in f32.
struct Step {
    float beta1, rest1, beta2, rest2, rate, root, kept, clip, epsilon;
    bool is_lost;
};

// βⁿ by squaring.
DEVICE double power(double base, u32 exponent) {
    double product = 1.0;
    for (; exponent > 0; exponent /= 2) {
        product *= exponent % 2 ? base : 1.0;
        base *= base;
    }
    return product;
}

// Where the losses begin among the numbers of the step.
constexpr u32 HEAD = 8;

// `scalars` begin with the number of steps made before, the seed, the learning rate and the clip factor. A step one of whose
// `losses` losses is not finite is lost and changes nothing: the host, which ends the run, may look at it only afterwards.
DEVICE Step step_of(const double *scalars, u32 losses, double beta1, double beta2, double epsilon, double weight_decay) {
    __shared__ Step step;
    if (threadIdx.x == 0) {
        u32 number = (u32)scalars[0] + 1;
        double learning_rate = scalars[2];
        step.beta1 = (float)beta1;
        step.rest1 = (float)(1.0 - beta1);
        step.beta2 = (float)beta2;
        step.rest2 = (float)(1.0 - beta2);
        step.rate = (float)(learning_rate / (1.0 - power(beta1, number)));
        step.root = (float)(1.0 / sqrt(1.0 - power(beta2, number)));
        step.kept = (float)(1.0 - learning_rate * weight_decay);
        step.clip = (float)scalars[3];
        step.epsilon = (float)epsilon;
        step.is_lost = false;
        for (u32 loss = 0; loss < losses; loss++) {
            step.is_lost |= scalars[HEAD + loss] - scalars[HEAD + loss] != 0.0;
        }
    }
    __syncthreads();
    return step;
}

// θ ← θ − lr · (m̂ / (√v̂ + ε) + wd · θ), with θ before the step, m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g²,
// m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ), and g the clipped gradient. `working` receives the new θ, rounded.
template <typename Parameter>
DEVICE void update(const Step &step, const Gradient *gradient, Parameter *parameters, float *first, float *second,
                   Storage *working, u64 count) {
    if (step.is_lost) {
        return;
    }
    u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 place = thread_number() * RUN; place < count; place += threads * RUN) {
        u32 there = left(count, place);
        Run g = load(gradient + place, there), p = load(parameters + place, there);
        Run m = load(first + place, there), v = load(second + place, there);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float clipped = g.values[lane] * step.clip;
            m.values[lane] = fmaf(step.beta1, m.values[lane], step.rest1 * clipped);
            v.values[lane] = fmaf(step.beta2, v.values[lane], step.rest2 * clipped * clipped);
            float denominator = fmaf(sqrtf(v.values[lane]), step.root, step.epsilon);
            p.values[lane] = fmaf(step.kept, p.values[lane], -(step.rate * m.values[lane] / denominator));
        }
        store(first + place, m, there);
        store(second + place, v, there);
        store(parameters + place, p, there);
        if (working) {
            store(working + place, p, there);
        }
    }
}

// Parameters that are rounded copies of a master in f32.
KERNEL adamw_master(const Gradient *gradient, float *master, float *first, float *second, Storage *parameters,
                    u64 count, const double *scalars, u32 losses, double beta1, double beta2, double epsilon,
                    double weight_decay) {
    Step step = step_of(scalars, losses, beta1, beta2, epsilon, weight_decay);
    update(step, gradient, master, first, second, parameters, count);
}

// Parameters that are themselves what is updated.
KERNEL adamw_parameters(const Gradient *gradient, Storage *parameters, float *first, float *second, u64 count,
                        const double *scalars, u32 losses, double beta1, double beta2, double epsilon,
                        double weight_decay) {
    Step step = step_of(scalars, losses, beta1, beta2, epsilon, weight_decay);
    update(step, gradient, parameters, first, second, (Storage *)0, count);
}
