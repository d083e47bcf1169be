// All of the public interface: what is included here, and what that includes, is installed.
#pragma once

#include "graph/graph.h"
#include "graph/io/npy.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "ops/evaluate.h"
#include "ops/infer/infer.h"
#include "ops/kernel.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "passes/report.h"
#include "runtime/folder.h"
#include "runtime/generator.h"
#include "runtime/plan.h"
#include "runtime/profile.h"
#include "runtime/session.h"
