/* The C interface of sparsmith: running tuned files on a GPU. This is the stable boundary that other languages call;
 * <sparsmith/tuned_model.h> is the same for C++, and says more of each function.
 *
 * Functions that can fail return a status and write their result through the last parameter, which they leave alone on
 * an error. sparsmith_last_error() then says what went wrong. Structs begin with their size, so that they can grow: the
 * caller sets it to sizeof. All else may be 0, which is the default.
 *
 * A model owns its weights and operators, and the texts that describe them. Any number of threads may use them;
 * sparsmith_model_free() must be the last thing done with a model, after all work with it has ended. */
#ifndef SPARSMITH_SPARSMITH_H_
#define SPARSMITH_SPARSMITH_H_

#include <stddef.h>
#include <stdint.h>

#include "sparsmith/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sparsmith_status {
  SPARSMITH_OK = 0,
  SPARSMITH_INVALID_ARGUMENT = 1,
  SPARSMITH_INVALID_INPUT = 2, /* a damaged file, or one of another kind */
  SPARSMITH_NOT_FOUND = 3,
  SPARSMITH_UNSUPPORTED = 4,
  SPARSMITH_NO_DEVICE = 5,
  SPARSMITH_DEVICE_ERROR = 6,
  SPARSMITH_OUT_OF_MEMORY = 7,
  SPARSMITH_IO_ERROR = 8,
  SPARSMITH_INTERNAL = 9
} sparsmith_status;

typedef enum sparsmith_type { SPARSMITH_FP32 = 0, SPARSMITH_FP16 = 1, SPARSMITH_BF16 = 2 } sparsmith_type;

typedef enum sparsmith_operator_kind {
  SPARSMITH_SPMM = 0,            /* y = W x */
  SPARSMITH_SPMM_TRANSPOSED = 1, /* y = W^T x: a layer's gradient of its input from that of its output */
  SPARSMITH_SDDMM = 2            /* values = dy x^T where W has elements, in the order of CSR: the gradient of W */
} sparsmith_operator_kind;

typedef struct sparsmith_model sparsmith_model;       /* a tuned file on a GPU */
typedef struct sparsmith_weight sparsmith_weight;     /* one of its weights, or a group of weights */
typedef struct sparsmith_operator sparsmith_operator; /* what is computed from a weight */

/* "0.1.0". */
SPARSMITH_API const char* sparsmith_version(void);

/* "invalid argument", ...; "unknown" for other numbers. */
SPARSMITH_API const char* sparsmith_status_name(sparsmith_status status);

/* What went wrong in this thread's last call that failed; "" when none did. Good until the thread's next call. */
SPARSMITH_API const char* sparsmith_last_error(void);

/* ---- models ---- */

typedef struct sparsmith_load_options {
  size_t struct_size;
  int device; /* counts those that this process sees, from 0. Its primary context is used */
  /* Other than 0: a file from nobody but yourself. Its structure, hashes, plans and sizes are checked as ever, and what
   * its packed arrays hold is not. */
  int trusted;
  int threads; /* that check packed arrays; 0: as many as the machine has cores */
  /* Other than 0: weights may be given new values. Takes 4 bytes a nonzero and packing besides, and time. */
  int updatable;
  /* Where device memory comes from, aligned to 256 bytes; null: from the driver. A null result ends the load with
   * SPARSMITH_OUT_OF_MEMORY. Each piece is freed once, by the thread that frees the model. */
  void* (*allocate)(size_t bytes, void* context);
  void (*free)(void* memory, void* context);
  void* context;
} sparsmith_load_options;

/* Loads a tuned file, or the bytes of one (aligned to 8, and no longer needed afterwards). The whole file is checked
 * before any driver is opened. Null options: the defaults. */
SPARSMITH_API sparsmith_status sparsmith_model_load(const char* path, const sparsmith_load_options* options,
                                                    sparsmith_model** model);
SPARSMITH_API sparsmith_status sparsmith_model_load_bytes(const void* bytes, size_t size,
                                                          const sparsmith_load_options* options,
                                                          sparsmith_model** model);
/* Checks a file as loading does, without a device or a driver. */
SPARSMITH_API sparsmith_status sparsmith_validate(const char* path, const sparsmith_load_options* options);

/* Null does nothing. */
SPARSMITH_API void sparsmith_model_free(sparsmith_model* model);

/* Bytes of device memory that were allocated. */
SPARSMITH_API int64_t sparsmith_model_gpu_bytes(const sparsmith_model* model);

/* ---- weights ---- */

/* The number of weights and groups, and number 0 <= index < count (null otherwise). */
SPARSMITH_API size_t sparsmith_model_weight_count(const sparsmith_model* model);
SPARSMITH_API const sparsmith_weight* sparsmith_model_weight_at(const sparsmith_model* model, size_t index);
/* By its name. */
SPARSMITH_API sparsmith_status sparsmith_model_weight(const sparsmith_model* model, const char* name,
                                                      const sparsmith_weight** weight);

typedef struct sparsmith_weight_info {
  size_t struct_size;
  const char* name;
  int64_t rows;
  int64_t cols;
  int64_t nnz;
  sparsmith_type type;
  int64_t gpu_bytes;    /* of all its packings, as allocated */
  int64_t places_bytes; /* besides, for new values */
  /* A group is several weights that share an input (q, k and v; gate and up), run as one: its y and bias hold those of
   * its members. 0: it is no group. */
  size_t member_count;
} sparsmith_weight_info;
SPARSMITH_API sparsmith_status sparsmith_weight_describe(const sparsmith_weight* weight, sparsmith_weight_info* info);

/* The name of member 0 <= index < count (null otherwise), in the order of their rows. */
SPARSMITH_API const char* sparsmith_weight_member_name(const sparsmith_weight* weight, size_t index);

/* Puts on a stream what gives the weight new values, and returns. `values`: a device pointer to nnz numbers in the
 * order of the pattern (row by row, ascending columns), of type fp32 or the weight's. Allocates nothing and does not
 * synchronise; captured graphs stay valid. Needs a model that was loaded with `updatable`. */
SPARSMITH_API sparsmith_status sparsmith_weight_set_values(const sparsmith_weight* weight, const void* values,
                                                           sparsmith_type type, void* stream);

/* ---- operators ---- */

SPARSMITH_API sparsmith_status sparsmith_weight_operator(const sparsmith_weight* weight, sparsmith_operator_kind kind,
                                                         const sparsmith_operator** op);

typedef struct sparsmith_operator_info {
  size_t struct_size;
  sparsmith_operator_kind kind;
  int64_t rows; /* M: features of y or dy */
  int64_t cols; /* K: features of x */
  sparsmith_type type;
  const char* layout;   /* "token_major": x[N][K], y[N][M]; "feature_major": x[K][N], y[M][N] */
  const char* epilogue; /* "none", or parts joined by '+': "bias+relu" */
  /* "fp32"; or "fp16_chains": sums of up to four products at a time may be formed in fp16, and are infinite beyond
   * 65504. */
  const char* accumulation;
  size_t operand_count;
  size_t choice_count;
} sparsmith_operator_info;
SPARSMITH_API sparsmith_status sparsmith_operator_describe(const sparsmith_operator* op, sparsmith_operator_info* info);

/* An array that the operator reads or writes besides the weight: lines of elements. */
typedef struct sparsmith_operand_info {
  size_t struct_size;
  const char* name; /* "x", "y", "bias", "residual"; of sddmm "x", "dy", "values" */
  sparsmith_type type;
  int present; /* 0: the operator was tuned without it */
  int read;    /* other than 0: it is read */
  int written; /* other than 0: it is written */
  int64_t lines;
  int64_t length; /* elements of a line. -1, as lines: the number of tokens */
  int has_ld;     /* 0: a vector, without gaps */
} sparsmith_operand_info;
/* Number 0 <= index < operand_count. */
SPARSMITH_API sparsmith_status sparsmith_operator_operand(const sparsmith_operator* op, size_t index,
                                                          sparsmith_operand_info* info);

/* What runs for numbers of tokens up to `tokens`, from the choice before it on; the last one for all above, too. */
typedef struct sparsmith_choice_info {
  size_t struct_size;
  int64_t tokens;
  const char* config;  /* of the generated kernels; "dense" where the weight stays dense */
  const char* packing; /* that they read */
  int measured;        /* 0: the times are predicted */
  double median_us;
  double dense_us; /* the operator on the dense weight; 0: not known */
} sparsmith_choice_info;
/* Number 0 <= index < choice_count, ascending in tokens. */
SPARSMITH_API sparsmith_status sparsmith_operator_choice(const sparsmith_operator* op, size_t index,
                                                         sparsmith_choice_info* info);

/* Where a member of a group lies: its y is y[offset + n * ld + m] of the group's (token_major) or y[offset + m * ld +
 * n] (feature_major), its bias bias[first_row + m]. Of spmm_transposed: its part of x. Not of sddmm. */
typedef struct sparsmith_member_view {
  size_t struct_size;
  int64_t first_row; /* of the group's rows */
  int64_t rows;      /* of the member */
  int64_t offset;    /* elements, from the beginning on */
  int64_t ld;        /* elements from one line to the next */
} sparsmith_member_view;
/* For a run with this many tokens and this ld of y (0: lines without gaps). With the residual's: in a residual. */
SPARSMITH_API sparsmith_status sparsmith_operator_member(const sparsmith_operator* op, const char* name, int64_t tokens,
                                                         int64_t ld, sparsmith_member_view* view);

/* Bytes of workspace that a run with this many tokens needs; 0: none. */
SPARSMITH_API sparsmith_status sparsmith_operator_workspace_bytes(const sparsmith_operator* op, int64_t tokens,
                                                                  size_t* bytes);

typedef struct sparsmith_operand_array {
  const char* name;
  const void* data; /* a device pointer; written where the operand is */
  int64_t ld;       /* leading dimension: elements from one line to the next; 0: lines without gaps */
} sparsmith_operand_array;

typedef struct sparsmith_run_arguments {
  size_t struct_size;
  int64_t tokens;                          /* N */
  const sparsmith_operand_array* operands; /* each that the operator has, in any order */
  size_t operand_count;
  void* workspace; /* null when it takes 0 bytes; aligned to 256 */
  float alpha;     /* what W x is times; 0 means 1 */
  float beta;      /* 0 unless the operator has beta */
} sparsmith_run_arguments;

/* Puts the operator on a stream (a CUstream or cudaStream_t; null: the default one) and returns. Allocates nothing and
 * does not synchronise: it may be captured into a CUDA graph. Inputs are read, and outputs written, only when all that
 * is before it in the stream has ended, also where the model was tuned with programmatic launches. */
SPARSMITH_API sparsmith_status sparsmith_operator_run(const sparsmith_operator* op,
                                                      const sparsmith_run_arguments* arguments, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SPARSMITH_SPARSMITH_H_ */
