select distinct p_mfgr, p_type
from part
order by 1, 2
