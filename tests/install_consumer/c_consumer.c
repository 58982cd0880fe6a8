/* Built as C99 against the installed tree by install_test.sh: the C interface compiles, links and reports errors. */
#include <stdio.h>
#include <string.h>

#include "sparsmith/sparsmith.h"

int main(void) {
  sparsmith_model* model = NULL;
  const sparsmith_status status = sparsmith_model_load("missing.safetensors", 0, &model);
  printf("sparsmith %s: %s: %s\n", sparsmith_version(), sparsmith_status_name(status), sparsmith_last_error());
  return (status == SPARSMITH_NOT_FOUND || status == SPARSMITH_NO_DEVICE) && model == NULL &&
                 strlen(sparsmith_last_error()) > 0
             ? 0
             : 1;
}
