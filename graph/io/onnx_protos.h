// ONNX's protobuf classes, in the order that their headers need.
#pragma once

#include <onnx/onnx_pb.h>
//
#include <onnx/onnx-data.pb.h>
