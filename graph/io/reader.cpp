#include "graph/io/reader.h"
