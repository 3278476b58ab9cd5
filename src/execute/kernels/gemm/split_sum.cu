// The end of a product whose depth was split over blocks: the parts are added in their order, so that the sum does not
// depend on which block was first. -D option: OUTPUT, the type of c.

#include "cuda/common.cuh"

// c (=|+=) the sum of `parts` matrices (rows, columns), one behind the other (+ bias in each row). Without a bias, it is
// null.
KERNEL split_sum(const float *parts, OUTPUT *c, const Storage *bias, u32 count, u32 rows, u32 columns, u64 stride,
                 u32 accumulate) {
    u64 size = (u64)rows * columns, index = thread_number();
    if (index >= size) {
        return;
    }
    u32 row = index / columns, column = index % columns;
    float sum = 0;
    for (u32 part = 0; part < count; part++) {
        sum += parts[part * size + index];
    }
    if (bias != nullptr) {
        sum += wide(bias[column]);
    }
    OUTPUT *place = c + row * stride + column;
    *place = narrow<OUTPUT>(accumulate ? wide(*place) + sum : sum);
}
