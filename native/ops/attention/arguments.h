// A call of a fused inference attention operator, checked and brought into one form.
#pragma once

#include "../named_inputs.h"
#include "attention.h"

namespace softnpu::ops::attention {

// What is known only when the operator runs: how many rows of padding follow a sequence.
struct Padding {
  at::Tensor query, key;  // one int64 each; undefined: the padding is on the right
  int64_t query_rows = 0, key_rows = 0;
};

struct Call {
  Problem problem;
  Padding padding;
  at::Tensor out, lse;
  bool fills_out = true;  // every row of `out` belongs to a sequence
  bool wants_lse = false;
};

// Throws c10::Error naming the parameter, what was expected and what came. The rules are those of
// op-plugin's pages on npu_fused_infer_attention_score and npu_fused_infer_attention_score_v2.
Call read_call(const NamedInputs& in);

}  // namespace softnpu::ops::attention
