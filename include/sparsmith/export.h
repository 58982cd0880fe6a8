// SPARSMITH_API marks what libsparsmith.so exports; everything else in it is hidden. For C and C++.
#pragma once

#ifdef __cplusplus
#define SPARSMITH_API [[gnu::visibility("default")]]
#else
#define SPARSMITH_API __attribute__((visibility("default")))
#endif
