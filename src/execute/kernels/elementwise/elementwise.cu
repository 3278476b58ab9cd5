// Copies, sums and looks at tensors element by element. A thread takes a run.
#include "cuda/common.cuh"

// Columns of one matrix become those of another.
KERNEL elementwise_copy_columns(const Storage *from, Storage *to, u32 rows, u32 columns, u32 from_stride, u32 from_first,
                                u32 to_stride, u32 to_first) {
    Spot at = spot(thread_number(), rows, columns);
    if (at.count == 0) {
        return;
    }
    Run x = load(from + (u64)at.row * from_stride + from_first + at.column, at.count);
    store(to + (u64)at.row * to_stride + to_first + at.column, x, at.count);
}

// to += from
KERNEL elementwise_add(const Storage *from, Storage *to, u64 count) {
    u64 place = thread_number() * RUN;
    u32 there = left(count, place);
    Run x = load(from + place, there), sum = load(to + place, there);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        sum.values[lane] += x.values[lane];
    }
    store(to + place, sum, there);
}

// A number of the step, or 1 where there is none.
DEVICE float number(const double *weight) {
    return weight ? (float)*weight : 1.0f;
}

// data ·= weight; `weight` may be null.
KERNEL elementwise_scale(const double *weight, Storage *data, u64 count) {
    u64 place = thread_number() * RUN;
    u32 there = left(count, place);
    float by = number(weight);
    Run x = load(data + place, there);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        x.values[lane] *= by;
    }
    store(data + place, x, there);
}

// to += weight · from; `weight` may be null.
KERNEL elementwise_add_scaled(const double *weight, const Storage *from, Storage *to, u64 count) {
    u64 place = thread_number() * RUN;
    u32 there = left(count, place);
    float by = number(weight);
    Run x = load(from + place, there), sum = load(to + place, there);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        sum.values[lane] = fmaf(by, x.values[lane], sum.values[lane]);
    }
    store(to + place, sum, there);
}

// to = scale · from: the gradient of a squared error.
KERNEL elementwise_scaled_copy(const Storage *from, Storage *to, u64 count, float scale) {
    u64 place = thread_number() * RUN;
    u32 there = left(count, place);
    Run x = load(from + place, there);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        x.values[lane] *= scale;
    }
    store(to + place, x, there);
}

// A number of the step that is known before. One thread.
KERNEL elementwise_set_number(double *to, double number) {
    *to = number;
}

// The place of the first value that is not finite goes to `place`, which is filled with 255 before and stays so if all
// are. The least of some numbers is the same in whichever order they come.
KERNEL elementwise_check(const Storage *values, u64 count, u64 *place) {
    u64 first = thread_number() * RUN;
    u32 there = left(count, first), bad = RUN;
    Run x = load(values + first, there);
#pragma unroll
    for (u32 lane = RUN; lane-- > 0;) {
        bad = fabsf(x.values[lane]) < INFINITE ? bad : lane;
    }
    if (bad < RUN) {
        atomicMin(place, first + bad);
    }
}
