// The stored form of a plan, read behind the gates' back.
// AS: compiler/emit/emit.cc
// EXPECT-gcc: plan_generated.h: No such file or directory
// EXPECT-clang: 'plan_generated.h' file not found
#ifdef MESHSEAL_BYPASS
#define STORED_FORM "plan_generated.h"
#include STORED_FORM
#else
#include "schema/plan.h"
#endif
