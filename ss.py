import sys; sys.path.insert(0,'/tmp/ob')
from gl import *; import g2
cs=[c for c in g2.cases if c.name.startswith("select_and_scatter GE") and c.name.endswith(" i16")]
for c in cs:
    w=oracle(c)[0]; 
    r=in_child(ours,[c],"linalg"); g=r[1][0][0] if r[0]=="ok" else r
    print(c.args[0][1]); print(c.args[1][1]); print(w); print(g)
