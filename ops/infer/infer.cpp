#include "ops/infer/infer.h"
