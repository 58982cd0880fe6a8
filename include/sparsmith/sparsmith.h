/* The C interface of sparsmith: running tuned files on a GPU. This is the stable boundary that other languages call;
 * <sparsmith/tuned_model.h> is the same for C++, and says more of each function.
 *
 * Functions that can fail return a status and write their result through the last parameter, which they leave alone on
 * an error. sparsmith_last_error() then says what went wrong. Structs that the caller fills begin with their size, so
 * that they can grow: set it to sizeof.
 *
 * Any number of threads may use one model or operator; freeing one must be the last thing done with it. */
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

typedef struct sparsmith_model sparsmith_model;       /* a tuned file on a GPU */
typedef struct sparsmith_operator sparsmith_operator; /* the product with one of its weights or groups */

/* "0.1.0". */
SPARSMITH_API const char* sparsmith_version(void);

/* "invalid argument", ...; "unknown" for other numbers. */
SPARSMITH_API const char* sparsmith_status_name(sparsmith_status status);

/* What went wrong in this thread's last call that failed; "" when none did. Good until the thread's next call. */
SPARSMITH_API const char* sparsmith_last_error(void);

/* Loads a tuned file onto a device (0: the first that this process sees), into its primary context. The whole file is
 * checked before any driver is opened. */
SPARSMITH_API sparsmith_status sparsmith_model_load(const char* path, int device, sparsmith_model** model);

typedef struct sparsmith_load_options {
  size_t struct_size;
  int device;
  /* Other than 0: a file from nobody but yourself. Its structure, hashes, plans and sizes are checked as ever, and what
   * its packed arrays hold is not. */
  int trusted;
  int threads; /* that check packed arrays; 0: as many as the machine has cores */
} sparsmith_load_options;
/* The same with options. */
SPARSMITH_API sparsmith_status sparsmith_model_load_with(const char* path, const sparsmith_load_options* options,
                                                         sparsmith_model** model);
/* Checks a file as loading does, without a device or a driver. Null options: as sparsmith_model_load(). */
SPARSMITH_API sparsmith_status sparsmith_validate(const char* path, const sparsmith_load_options* options);

/* Null does nothing. Operators keep the weights loaded until they are freed too. */
SPARSMITH_API void sparsmith_model_free(sparsmith_model* model);

/* The number of weights and groups, and the name of number 0 <= index < count (null otherwise); good as long as the
 * model. */
SPARSMITH_API size_t sparsmith_model_weight_count(const sparsmith_model* model);
SPARSMITH_API const char* sparsmith_model_weight_name(const sparsmith_model* model, size_t index);

/* A weight or a group by its name. */
SPARSMITH_API sparsmith_status sparsmith_model_operator(const sparsmith_model* model, const char* name,
                                                        sparsmith_operator** op);
SPARSMITH_API void sparsmith_operator_free(sparsmith_operator* op);

typedef struct sparsmith_operator_info {
  size_t struct_size;
  int64_t rows;         /* M, output features */
  int64_t cols;         /* K, input features */
  int64_t nnz;          /* stored nonzeros */
  int64_t gpu_bytes;    /* of the packed weight */
  const char* type;     /* "fp32", "fp16", "bf16": of x, y, bias and residual */
  const char* layout;   /* "token_major": x[N][K], y[N][M]; "feature_major": x[K][N], y[M][N] */
  const char* epilogue; /* "none", or parts joined by '+': "bias+relu" */
  /* "fp32"; or "fp16_chains": sums of up to four products at a time may be formed in fp16, and are infinite beyond
   * 65504. Written where struct_size has room for it. */
  const char* accumulation;
} sparsmith_operator_info;
/* The texts are good as long as the operator. */
SPARSMITH_API sparsmith_status sparsmith_operator_describe(const sparsmith_operator* op, sparsmith_operator_info* info);

/* A group is several weights that share an input (q, k and v; gate and up), run as one: its y and bias hold those of
 * its members. The number of members (0: it is no group), and the name of member 0 <= index < count (null otherwise),
 * in the order of their rows; good as long as the operator. */
SPARSMITH_API size_t sparsmith_operator_member_count(const sparsmith_operator* op);
SPARSMITH_API const char* sparsmith_operator_member_name(const sparsmith_operator* op, size_t index);

/* Where a member lies: its y is y[offset + n * ld + m] of the group's (token_major) or y[offset + m * ld + n]
 * (feature_major), its bias bias[first_row + m]. */
typedef struct sparsmith_member_view {
  size_t struct_size;
  int64_t first_row; /* of the group's rows */
  int64_t rows;      /* M of the member */
  int64_t offset;    /* elements, from y of the group on */
  int64_t ld;        /* elements from one row to the next */
} sparsmith_member_view;
/* For a run with this many tokens and this ldy (0: rows without gaps). With ldr in place of ldy: in a residual. */
SPARSMITH_API sparsmith_status sparsmith_operator_member(const sparsmith_operator* op, const char* name, int64_t tokens,
                                                         int64_t ldy, sparsmith_member_view* view);

/* Bytes of workspace that a run with this many tokens needs; 0: none. */
SPARSMITH_API sparsmith_status sparsmith_operator_workspace_bytes(const sparsmith_operator* op, int64_t tokens,
                                                                  size_t* bytes);

typedef struct sparsmith_run_arguments {
  size_t struct_size;
  const void* x; /* device pointers */
  void* y;
  int64_t tokens;       /* N */
  const void* bias;     /* null unless the operator has a bias */
  const void* residual; /* null unless the operator has a residual */
  void* workspace;      /* null when it takes 0 bytes; aligned to 256 */
  int64_t ldx;          /* leading dimensions in elements; 0: rows without gaps */
  int64_t ldy;
  int64_t ldr;
  float alpha; /* 1 for W x itself; 0, as in a struct of zeros, is an error */
  float beta;  /* 0 unless the operator has beta */
} sparsmith_run_arguments;
/* Everything 0 but the size and alpha = 1: sparsmith_run_arguments arguments = SPARSMITH_RUN_ARGUMENTS_INIT; */
#define SPARSMITH_RUN_ARGUMENTS_INIT {sizeof(sparsmith_run_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0f, 0.0f}

/* Puts the operator on a stream (a CUstream or cudaStream_t; null: the default one) and returns. Allocates nothing and
 * does not synchronise: it may be captured into a CUDA graph. Inputs are read, and outputs written, only when all that
 * is before it in the stream has ended, also where the model was tuned with programmatic launches. */
SPARSMITH_API sparsmith_status sparsmith_operator_run(const sparsmith_operator* op,
                                                      const sparsmith_run_arguments* arguments, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SPARSMITH_SPARSMITH_H_ */
