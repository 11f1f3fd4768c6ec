#include "cluster/placement/scope.hpp"
