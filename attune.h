// All of the public interface.
#pragma once

#include "graph/graph.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "ops/evaluate.h"
#include "ops/infer/infer.h"
#include "ops/kernel.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "passes/report.h"
#include "runtime/plan.h"
#include "runtime/session.h"
