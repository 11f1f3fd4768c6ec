#include "cluster/record/mark.hpp"
