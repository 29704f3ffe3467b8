// Tensors of an attention call by the letters of their layout: B batch, S sequence, N heads, D head
// size, H = N * D, T the tokens of all sequences one after the other.
#pragma once

#include <string>

#include "attention.h"

namespace softnpu::ops::attention {

struct Layout {
  std::string input;  // of query, and of key and value unless they are paged
  std::string output;
  bool packed = false;  // tokens of all sequences in one dimension
};

// Throws c10::Error for a name that there is none of.
Layout layout_of(const std::string& name);

// Sizes and strides of one tensor, in elements; batches is 1 and its stride 0 where it is packed.
struct Axes {
  int64_t batches = 1, heads = 0, tokens = 0, dim = 0;
  HeadRows rows;
};

// `heads` splits an H. Throws c10::Error that names `param` when the tensor does not fit.
Axes axes_of(const at::Tensor& tensor, const std::string& letters, int64_t heads,
             const char* param);

// A plain view over memory of 16-bit floats; throws for another dtype or gaps between elements.
void check_plain(const at::Tensor& tensor, at::ScalarType dtype, const char* param);

}  // namespace softnpu::ops::attention
