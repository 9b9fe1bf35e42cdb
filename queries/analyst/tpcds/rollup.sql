select i_category, i_brand, d_year, sum(ws_net_paid), grouping(i_category)+grouping(i_brand) g
from web_sales
join item on ws_item_sk=i_item_sk
join date_dim on ws_sold_date_sk=d_date_sk
group by rollup(i_category,i_brand,d_year)
order by 1 nulls first,2 nulls first,3 nulls first
limit 200
