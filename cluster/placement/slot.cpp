#include "cluster/placement/slot.hpp"
