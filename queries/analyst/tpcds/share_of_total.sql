select i_category, i_class, sum(cs_net_paid) s,
  sum(cs_net_paid)*100/sum(sum(cs_net_paid)) over (partition by i_category) pct
from catalog_sales
join item on cs_item_sk=i_item_sk
group by i_category, i_class
order by 1,2
