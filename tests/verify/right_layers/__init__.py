"""Right layers in unusual styles and at awkward numbers: gradcheck may refuse none of them.

Every page has CASES: (name, layer or pair of functions, inputs, more arguments of gradcheck).
"""

from right_layers import composites, library, plain, scales, special_points

CASES = [case for page in (special_points, scales, composites, plain, library)
         for case in page.CASES]
