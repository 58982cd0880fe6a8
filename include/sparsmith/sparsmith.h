/* The C interface of sparsmith: runs tuned files on a GPU. Other languages call this stable interface.
 * <sparsmith/tuned_model.h> is the C++ interface, with more detail on each function.
 *
 * A function that can fail returns a status and writes its result through the last parameter. On an error the parameter
 * is left unchanged, and sparsmith_last_error() gives the reason. Every struct begins with its size, so that later
 * versions can add fields: the caller sets struct_size to sizeof. All other fields may be 0, the default.
 *
 * A model owns its weights, its operators, and the texts that describe them. Any number of threads may use them.
 * sparsmith_model_free() is the last call on a model, after all work with the model has ended. */
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
  SPARSMITH_INVALID_INPUT = 2, /* a damaged file, or a file of another kind */
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

/* "0.2.0". */
SPARSMITH_API const char* sparsmith_version(void);

/* "invalid argument", ...; "unknown" for other numbers. */
SPARSMITH_API const char* sparsmith_status_name(sparsmith_status status);

/* The reason of this thread's last error; "" if there was no error. Valid until the thread's next call. */
SPARSMITH_API const char* sparsmith_last_error(void);

/* ---- models ---- */

typedef struct sparsmith_load_options {
  size_t struct_size;
  int device; /* number of the device among those that this process sees, from 0; its primary context is used */
  /* Not 0: the caller made the file. Structure, hashes, plans and sizes are checked; contents of packed arrays are
   * not. */
  int trusted;
  int threads; /* threads that check packed arrays; 0: one for each core */
  /* Not 0: weights may get new values. Takes 4 more bytes for each nonzero of each packing, and a longer load. */
  int updatable;
  /* Allocates device memory, aligned to 256 bytes; null: the driver allocates. If `allocate` returns null, the load
   * ends with SPARSMITH_OUT_OF_MEMORY. Each piece is freed once, by the thread that frees the model. */
  void* (*allocate)(size_t bytes, void* context);
  void (*free)(void* memory, void* context);
  void* context;
} sparsmith_load_options;

/* Loads a tuned file, or the bytes of a tuned file (aligned to 8; not needed after the call). The whole file is checked
 * before any driver is opened. Null options: the defaults. */
SPARSMITH_API sparsmith_status sparsmith_model_load(const char* path, const sparsmith_load_options* options,
                                                    sparsmith_model** model);
SPARSMITH_API sparsmith_status sparsmith_model_load_bytes(const void* bytes, size_t size,
                                                          const sparsmith_load_options* options,
                                                          sparsmith_model** model);
/* Checks a file as sparsmith_model_load() does, without a device or a driver. */
SPARSMITH_API sparsmith_status sparsmith_validate(const char* path, const sparsmith_load_options* options);

/* Null does nothing. */
SPARSMITH_API void sparsmith_model_free(sparsmith_model* model);

/* Allocated bytes of device memory. */
SPARSMITH_API int64_t sparsmith_model_gpu_bytes(const sparsmith_model* model);

/* ---- weights ---- */

/* The number of weights and groups; the weight of an index, 0 <= index < count (null otherwise). */
SPARSMITH_API size_t sparsmith_model_weight_count(const sparsmith_model* model);
SPARSMITH_API const sparsmith_weight* sparsmith_model_weight_at(const sparsmith_model* model, size_t index);
/* The weight or group of a name. */
SPARSMITH_API sparsmith_status sparsmith_model_weight(const sparsmith_model* model, const char* name,
                                                      const sparsmith_weight** weight);

typedef struct sparsmith_weight_info {
  size_t struct_size;
  const char* name;
  int64_t rows;
  int64_t cols;
  int64_t nnz;
  sparsmith_type type;
  int64_t gpu_bytes;    /* allocated bytes of all packings */
  int64_t places_bytes; /* further bytes, for new values */
  /* A group is several weights with one input (q, k and v; gate and up) that run as one weight. The y and the bias of
   * the group hold those of its members. 0: not a group. */
  size_t member_count;
} sparsmith_weight_info;
SPARSMITH_API sparsmith_status sparsmith_weight_describe(const sparsmith_weight* weight, sparsmith_weight_info* info);

/* The name of a member, 0 <= index < member_count (null otherwise), in the order of rows. */
SPARSMITH_API const char* sparsmith_weight_member_name(const sparsmith_weight* weight, size_t index);

/* Enqueues an update of the weight's values on a stream, and returns. `values`: a device pointer to nnz numbers in the
 * order of the pattern (row by row, ascending columns), fp32 or of the weight's type. Allocates nothing and does not
 * synchronise; captured graphs stay valid. REQUIRES: the model was loaded with `updatable`. */
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
  /* "fp32"; or "fp16_chains": up to four products at a time may be summed in fp16, where sums beyond 65504 are
   * infinite. */
  const char* accumulation;
  size_t operand_count;
  size_t choice_count;
} sparsmith_operator_info;
SPARSMITH_API sparsmith_status sparsmith_operator_describe(const sparsmith_operator* op, sparsmith_operator_info* info);

/* An array of the operator besides the weight: lines of elements. */
typedef struct sparsmith_operand_info {
  size_t struct_size;
  const char* name; /* "x", "y", "bias", "residual"; of sddmm "x", "dy", "values" */
  sparsmith_type type;
  int present;    /* 0: the operator was tuned without this operand */
  int read;       /* not 0: the operator reads it */
  int written;    /* not 0: the operator writes it */
  int64_t lines;  /* -1: the number of tokens */
  int64_t length; /* elements of a line; -1: the number of tokens */
  int has_ld;     /* 0: a vector, without gaps */
} sparsmith_operand_info;
/* REQUIRES: 0 <= index < operand_count. */
SPARSMITH_API sparsmith_status sparsmith_operator_operand(const sparsmith_operator* op, size_t index,
                                                          sparsmith_operand_info* info);

/* The choice for numbers of tokens above the previous choice's and up to `tokens`. The last choice also serves all
 * larger numbers. */
typedef struct sparsmith_choice_info {
  size_t struct_size;
  int64_t tokens;
  const char* config;  /* of the generated kernels; "dense" where the weight stays dense */
  const char* packing; /* the packing that the kernels read */
  int measured;        /* 0: the times are predicted */
  double median_us;
  double dense_us; /* time of the operator on the dense weight; 0: not known */
} sparsmith_choice_info;
/* REQUIRES: 0 <= index < choice_count. Choices ascend in tokens. */
SPARSMITH_API sparsmith_status sparsmith_operator_choice(const sparsmith_operator* op, size_t index,
                                                         sparsmith_choice_info* info);

/* The place of a member in the arrays of its group: the member's y is y[offset + n * ld + m] (token_major) or
 * y[offset + m * ld + n] (feature_major), its bias is bias[first_row + m]. For spmm_transposed: the member's part of x.
 * Not for sddmm. */
typedef struct sparsmith_member_view {
  size_t struct_size;
  int64_t first_row; /* of the group's rows */
  int64_t rows;      /* of the member */
  int64_t offset;    /* elements from the beginning of the array */
  int64_t ld;        /* elements from one line to the next */
} sparsmith_member_view;
/* For a run with this number of tokens and this ld of y (0: lines without gaps). With the ld of a residual: the place
 * in the residual. */
SPARSMITH_API sparsmith_status sparsmith_operator_member(const sparsmith_operator* op, const char* name, int64_t tokens,
                                                         int64_t ld, sparsmith_member_view* view);

/* Bytes of workspace of a run with this number of tokens; 0: none. */
SPARSMITH_API sparsmith_status sparsmith_operator_workspace_bytes(const sparsmith_operator* op, int64_t tokens,
                                                                  size_t* bytes);

typedef struct sparsmith_operand_array {
  const char* name;
  const void* data; /* a device pointer; written if the operand is written */
  int64_t ld;       /* leading dimension: elements from one line to the next; 0: lines without gaps */
} sparsmith_operand_array;

typedef struct sparsmith_run_arguments {
  size_t struct_size;
  int64_t tokens;                          /* N */
  const sparsmith_operand_array* operands; /* all operands of the operator, in any order */
  size_t operand_count;
  void* workspace; /* aligned to 256; null if its size is 0 */
  float alpha;     /* factor of W x; 0 means 1 */
  float beta;      /* 0 unless the operator has beta */
} sparsmith_run_arguments;

/* Enqueues the operator on a stream (a CUstream or cudaStream_t; null: the default stream) and returns. Allocates
 * nothing and does not synchronise, so a CUDA graph may capture the run. Inputs are read and outputs are written only
 * after all earlier work in the stream has ended, also with programmatic launches. */
SPARSMITH_API sparsmith_status sparsmith_operator_run(const sparsmith_operator* op,
                                                      const sparsmith_run_arguments* arguments, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SPARSMITH_SPARSMITH_H_ */
