select t_hour, t_am_pm, count(*) n, sum(ws_quantity) q, avg(ws_sales_price)
from web_sales
left join time_dim on ws_sold_time_sk=t_time_sk
group by 1,2
order by 1,2
