#include "cluster/record/status.hpp"
