select l_suppkey, corr(l_quantity, l_extendedprice), var_pop(l_discount), covar_samp(l_quantity,l_tax)
from lineitem
group by 1
order by 1
limit 20
